use super::*;

fn file(disk: &FakeDisk, name: &str) -> Arc<dyn DiskFile> {
    disk.create(Path::new(name), 512, Space::Sparse).unwrap()
}

#[test]
fn a_copy_taken_while_a_thread_writes_never_holds_a_later_write_without_an_earlier_one() {
    let disk = FakeDisk::new(512);
    // Between the two in the order of names lie others, which a copy takes its time for.
    let (first, last) = (file(&disk, "/a"), file(&disk, "/z"));
    (0..200).for_each(|number| drop(file(&disk, &format!("/m{number}"))));
    let number = |disk: &FakeDisk, name: &str| {
        let mut bytes = [0; 8];
        disk.open(Path::new(name)).unwrap().read_at(&mut bytes, 0).unwrap();
        u64::from_be_bytes(bytes)
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 1u64;
            while !is_over.load(Ordering::Relaxed) {
                first.write_at(&round.to_be_bytes(), 0).unwrap();
                first.sync().unwrap();
                last.write_at(&round.to_be_bytes(), 0).unwrap();
                round += 1;
            }
        });
        for seed in 0..100 {
            for copy in [disk.killed(), disk.power_cut(seed)] {
                let (first, last) = (number(&copy, "/a"), number(&copy, "/z"));
                if first < last {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert!(first >= last, "the copy holds write {last} and lacks write {first} + 1");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn operations_take_the_time_that_is_set_and_hang_once_without_a_thread_that_sleeps() {
    let disk = FakeDisk::new(512);
    let file = file(&disk, "/a");
    assert_eq!(disk.time_taken(), Duration::ZERO);
    let ms = Duration::from_millis;
    disk.faults(|faults| {
        faults.latency = Latency { read: ms(1), write: ms(10), sync: ms(100), names: ms(1000) };
    });
    let taken = |run: &dyn Fn()| {
        let before = disk.time_taken();
        run();
        disk.time_taken() - before
    };
    assert_eq!(taken(&|| file.read_at(&mut [0; 8], 0).unwrap()), ms(1));
    assert_eq!(taken(&|| assert!(file.read_resident(&mut [0; 8], 0).unwrap())), ms(0));
    assert_eq!(taken(&|| file.write_at(&[1; 8], 0).unwrap()), ms(10));
    assert_eq!(taken(&|| file.write_zeros(0, 8).unwrap()), ms(10));
    assert_eq!(taken(&|| file.sync().unwrap()), ms(100));
    assert_eq!(taken(&|| disk.rename(Path::new("/a"), Path::new("/b")).unwrap()), ms(1000));
    disk.faults(|faults| faults.hangs = Some((Operation::Sync, ms(30_000))));
    assert_eq!(taken(&|| file.write_at(&[1; 8], 0).unwrap()), ms(10), "what hangs is the next sync");
    assert_eq!(taken(&|| file.sync().unwrap()), ms(30_100));
    assert_eq!(taken(&|| file.sync().unwrap()), ms(100));
}
