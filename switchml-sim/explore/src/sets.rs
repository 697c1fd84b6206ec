//! Which scenarios are explored.

use crate::scenario::{Flight, Form, Scenario, Sending, Start, Tensor};

/// A few seconds: every list of up to two tensors for few workers and slots, and some of everything else.
pub(crate) fn brief() -> Vec<Scenario> {
    let mut set = dissenting();
    for (workers, window) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)] {
        set.extend(every_list(workers, window, 2, 12));
    }
    for list in ["i5,i0,i1", "b2,b0,i1,b1", "i1,b1,i1,b1"] {
        set.push(scenario(3, 1, list).starts(Start::Zero));
    }
    for list in ["i1,i1,i1,i1,i1,i1,i1,i1", "b1,i3,b2,i0", "b3,b1", "i5,b1,i1", "i2,b2,i2", "i1,b3,i1"] {
        let scenario = scenario(2, 2, list);
        set.push(scenario.clone().sends(Sending::Late));
        set.push(scenario.clone().keeps(Flight::Any));
        set.push(scenario.starts(Start::Zero));
    }
    for list in ["i1,i1,i1,i1,i1,i1,i1,i1", "b1,i3,b2", "b3,i2", "i5,i0,i1,i1"] {
        set.push(scenario(3, 2, list));
    }
    for list in ["b3,b1", "b4", "i4,i1,i3", "i2,b1,i1"] {
        set.push(scenario(2, 4, list));
    }
    set
}

/// Half a minute on two cores: wider bounds besides.
pub(crate) fn quick() -> Vec<Scenario> {
    let mut set = brief();
    set.push(scenario(3, 2, "i3,b1").sends(Sending::Late));
    set.push(scenario(3, 2, "i5,b1").keeps(Flight::Any));
    set.push(scenario(2, 4, "b3,b1").keeps(Flight::Any));
    set.push(scenario(3, 4, "i4,i1"));
    set
}

/// A quarter of an hour on two cores: every list of up to three tensors, and bounds twice as wide where they fit.
pub(crate) fn full() -> Vec<Scenario> {
    let mut set = quick();
    // The long ones first, so that no thread has one to itself at the end.
    set.push(scenario(3, 2, "i1,b3,i1").sends(Sending::Late));
    for list in ["i4,i3,b2", "i8,i1", "b4,i1"] {
        set.push(scenario(3, 4, list));
    }
    for list in ["b6", "i7,b1,i1", "b3,i2,b1,i1", "i16", "i4,i1,i3,b2"] {
        set.push(scenario(2, 4, list));
    }
    for list in ["i4,i1", "b4"] {
        set.push(scenario(2, 4, list).keeps(Flight::Any));
    }
    for list in ["i1,i1,i1,i1,i1,i1,i1,i1,i1,i1,i1,i1", "b3,i1,b3", "b5,i2", "i10,b2,i1", "b2,b2,b2,i0"] {
        set.push(scenario(3, 2, list));
    }
    for scenario in every_list(3, 2, 2, 10) {
        set.push(scenario.keeps(Flight::Any));
    }
    for scenario in every_list(2, 2, 3, 10) {
        set.push(scenario.clone().sends(Sending::Late));
        set.push(scenario.keeps(Flight::Any));
    }
    for (workers, window) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)] {
        set.extend(every_list(workers, window, 3, 12));
    }
    for (workers, window) in [(2, 1), (3, 1), (2, 2)] {
        set.extend(every_list(workers, window, 2, 12).into_iter().map(|list| list.starts(Start::Zero)));
    }
    for scenario in every_list(3, 1, 2, 10) {
        set.push(scenario.sends(Sending::Late));
    }
    set
}

/// The smallest job in which the published algorithm returns a wrong sum.
pub(crate) fn published() -> Vec<Scenario> {
    vec![scenario(2, 1, "i4").starts(Start::Zero)]
}

/// Members that do not call the same.
fn dissenting() -> Vec<Scenario> {
    let pairs = [("i3", "i2"), ("i2,i2", "i2,b2"), ("b2,i1", "b2,i2"), ("i1,i0", "i1,b1"), ("b3", "i3")];
    let jobs = [(2, 1), (3, 1), (2, 2)].into_iter();
    jobs.flat_map(|(workers, window)| {
        pairs.map(|(list, dissent)| Scenario {
            dissent: Some(list_of(dissent)),
            ..scenario(workers, window, list)
        })
    })
    .collect()
}

/// Every list of one to `longest` tensors, of none to four times as many chunks as the window has slots, that takes each
/// slot through four phases at least and has at most so many packets.
fn every_list(workers: usize, window: usize, longest: usize, packets: u32) -> Vec<Scenario> {
    let slots = window as u32;
    let mut chunks = vec![0, 1, slots - 1, slots, slots + 1, 2 * slots, 4 * slots];
    chunks.sort_unstable();
    chunks.dedup();
    let of_form = |form| chunks.iter().map(move |&chunks| Tensor { form, chunks });
    let tensors: Vec<_> = [Form::Integer, Form::Block].into_iter().flat_map(of_form).collect();
    let mut all = Vec::new();
    let mut lists: Vec<Vec<Tensor>> = vec![Vec::new()];
    for _ in 0..longest {
        let longer = |list: Vec<Tensor>| {
            tensors.iter().map(move |&tensor| [list.as_slice(), &[tensor]].concat()).collect::<Vec<_>>()
        };
        lists = lists.into_iter().flat_map(longer).collect();
        all.extend_from_slice(&lists);
    }
    all.into_iter()
        .map(|tensors| Scenario { tensors, ..scenario(workers, window, "i0") })
        .filter(|scenario| (4 * slots..=packets).contains(&scenario.packets()))
        .collect()
}

/// One whose seqs wrap, that sends at once, and fills its window.
fn scenario(workers: usize, window: usize, list: &str) -> Scenario {
    Scenario {
        workers,
        window,
        start: Start::BeforeWrap,
        sending: Sending::Prompt,
        flight: Flight::Window,
        tensors: list_of(list),
        dissent: None,
    }
}

impl Scenario {
    fn starts(self, start: Start) -> Self {
        Self { start, ..self }
    }

    fn sends(self, sending: Sending) -> Self {
        Self { sending, ..self }
    }

    fn keeps(self, flight: Flight) -> Self {
        Self { flight, ..self }
    }
}

fn list_of(text: &str) -> Vec<Tensor> {
    text.split(',').map(|tensor| tensor.parse().expect("written here")).collect()
}
