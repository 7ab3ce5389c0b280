use super::*;
use crate::disk::{FakeDisk, Usage};

fn log(disk: &FakeDisk) -> Log {
    let config = Config { segment_bytes: 4096, ..Config::new("/store") };
    disk.create_dir_all(&config.commit_log).unwrap();
    Log::new(&config, Arc::new(disk.clone()))
}

#[test]
fn a_file_takes_space_from_its_creation_until_it_is_listed() {
    let disk = FakeDisk::new(512);
    let log = log(&disk);
    let hang = Arc::new(Mutex::new(()));
    disk.faults(|faults| faults.syncs_wait_for = Some(hang.clone()));
    let hanging = lock(&hang);
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| log.ensure(0).map(drop));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while !log.is_making() {
            assert!(std::time::Instant::now() < deadline, "no file is made within two minutes");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(log.segment_of(0).is_none());
        drop(hanging);
        maker.join().unwrap().unwrap();
    });
    assert!(!log.is_making() && log.segment_of(0).is_some());
}

#[test]
fn looking_for_a_directory_with_room_takes_no_space() {
    let disk = FakeDisk::new(512);
    let log = log(&disk);
    let usage = Usage { device: 0, total: 1 << 20, free: 4095, available: 4095 };
    disk.faults(|faults| faults.usage = vec![("/store".into(), usage)]);
    let _making = lock(&log.making);
    assert!(!log.is_making(), "a round of retention now must see that the next file has no room");
    assert!(log.make_at(0).is_err());
    assert!(!log.is_making());
}
