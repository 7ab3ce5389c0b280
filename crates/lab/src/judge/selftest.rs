//! Self-test figures that a run disproved: the run exceeded what the machine was said to be able to do.
//!
//! A self-test takes some seconds. When another program used the machine then, or its cloud disk had used up its burst
//! credit, the figures are too low. Comparisons with them are wrong: a use of 300 %, a disk that is called slow.

use super::stats::mean;
use crate::archive::{Beaten, HostFile, HostSecond, Limit, Record, Roofline};

/// Average of the run, as a multiple of the self-test's limit, from which on the self-test is left out. The margin
/// allows for writes that are counted a little later than they were made.
const ABOVE: f64 = 1.1;

/// Removes from the run the parts of its self-tests that the run exceeded. A part is removed with all its figures.
pub fn without_beaten(mut record: Record) -> Record {
    let mut hosts = std::mem::take(&mut record.file.hosts);
    for host in &mut hosts {
        let Some(mut roofline) = host.roofline.take() else { continue };
        host.beaten = beaten(&record, host, &roofline);
        for found in &host.beaten {
            leave_out(&mut roofline, found.limit);
        }
        host.roofline = Some(roofline);
    }
    record.file.hosts = hosts;
    record
}

fn beaten(record: &Record, host: &HostFile, roofline: &Roofline) -> Vec<Beaten> {
    type Reached = fn(&HostSecond) -> u64;
    let limits: [(Limit, f64, Reached); 3] = [
        (Limit::DiskWrite, roofline.disk_write_bytes, |second| second.disk_written),
        (Limit::DiskRead, roofline.disk_read_bytes, |second| second.disk_read),
        (Limit::Loopback, roofline.net_bytes, |second| second.net_loopback),
    ];
    let phases = record.cells.iter().flat_map(|cell| {
        let counted = cell.cell.phases.iter().filter(|phase| phase.counts());
        counted.filter_map(|phase| {
            let repeat = cell.repeats.get(usize::try_from(phase.repeat).ok()?.checked_sub(1)?)?;
            let seconds = repeat.hosts.get(&host.name)?.iter();
            let inside = seconds.filter(|second| second.at_ms > phase.from_ms && second.at_ms <= phase.to_ms);
            Some(inside.collect::<Vec<_>>())
        })
    });
    let phases: Vec<Vec<&HostSecond>> = phases.collect();
    let most = |of: Reached| {
        let means =
            phases.iter().map(|seconds| mean(&seconds.iter().map(|s| of(s) as f64).collect::<Vec<_>>()));
        means.fold(0.0, f64::max)
    };
    let found = limits.into_iter().map(|(limit, tested, of)| Beaten { limit, tested, reached: most(of) });
    found.filter(|found| found.tested > 0.0 && found.reached > found.tested * ABOVE).collect()
}

/// Removes a part of a self-test. A disk that wrote too little in its test gave too low figures in the other disk tests
/// as well.
fn leave_out(roofline: &mut Roofline, limit: Limit) {
    match limit {
        Limit::DiskWrite | Limit::DiskRead => {
            let Roofline { net_bytes, net_round_trips, lab_messages, cpu_crc_bytes, .. } = *roofline;
            *roofline =
                Roofline { net_bytes, net_round_trips, lab_messages, cpu_crc_bytes, ..Roofline::default() };
        }
        Limit::Loopback => (roofline.net_bytes, roofline.net_round_trips) = (0.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing;
    use crate::sentences::self_tests_left_out;

    fn run(disk_written: u64) -> Record {
        let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
        record.file.hosts[1].roofline.as_mut().expect("the fixture has one").disk_write_bytes = 32.7e6;
        testing::each_host_second(&mut record, "b1", |_, second| second.disk_written = disk_written);
        without_beaten(record)
    }

    #[test]
    fn a_self_test_that_its_own_run_beats_is_left_out_and_said_to_be() {
        let found = run(97_700_000);
        let roofline = found.file.hosts[1].roofline.clone().expect("its other parts");
        assert_eq!((roofline.disk_write_bytes, roofline.disk_flushes, roofline.net_bytes), (0.0, 0.0, 125e6));
        let says: Vec<String> = self_tests_left_out(&found.file).into_iter().map(|text| text.en).collect();
        let expected =
            "the self-test of the disk of b1 is left out: it wrote 32.7 MB/s, the run itself 97.7 MB/s";
        assert_eq!(says, [expected]);
        let kept = run(34_000_000);
        assert_eq!(kept.file.hosts[1].roofline.as_ref().map(|all| all.disk_write_bytes), Some(32.7e6));
        assert!(self_tests_left_out(&kept.file).is_empty());
    }
}
