use super::{Cpus, InvalidCpus};

#[test]
fn lists_are_numbers_and_ranges() {
    for (list, cpus) in [("0", vec![0]), ("0,2", vec![0, 2]), ("4-6,1023,4", vec![4, 5, 6, 1023, 4])] {
        assert_eq!(list.parse(), Cpus::new(cpus), "{list}");
    }
    let many = ["0-1023"; 3].join(",");
    for list in ["", ",", "1,", "a", "-1", "2-1", "1-", "1024", "0-99999999999", "0 ", "1--2", &many] {
        assert_eq!(list.parse::<Cpus>(), Err(InvalidCpus), "{list:?}");
    }
    assert_eq!(Cpus::new([]), Err(InvalidCpus));
    assert_eq!(Cpus::new(0..), Err(InvalidCpus));
}

#[test]
fn lanes_take_turns_on_the_processors() {
    let cpus = Cpus::new([3, 5]).unwrap();
    assert_eq!([0, 1, 2, 3].map(|lane| cpus.of(lane)), [3, 5, 3, 5]);
    assert_eq!(cpus.to_string(), "3,5");
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_is_where_it_was_placed() {
    use rustix::thread::sched_getaffinity;

    std::thread::spawn(|| {
        let may = sched_getaffinity(None).unwrap();
        let cpu = (0..1024).rfind(|&cpu| may.is_set(cpu)).unwrap();
        Cpus::new([cpu]).unwrap().place(7).unwrap();
        let placed = sched_getaffinity(None).unwrap();
        assert!(placed.is_set(cpu) && placed.count() == 1);
        // A machine with so many processors has not been seen here.
        let nowhere = Cpus::new([1023]).unwrap().place(0).unwrap_err();
        assert!(nowhere.to_string().contains("1023"), "{nowhere}");
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1, "it stays where it was");
    })
    .join()
    .unwrap();
}
