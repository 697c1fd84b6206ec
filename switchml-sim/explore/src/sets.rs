//! Which scenarios are explored.

use crate::scenario::{Form, Scenario, Sending, Start, Tensor};

/// A few minutes on two cores at most: every rule, and every kind of tensor and list, once.
pub(crate) fn quick() -> Vec<Scenario> {
    let mut set = Vec::new();
    for start in [Start::Zero, Start::BeforeWrap] {
        for list in ["i5,i0,i1", "b2,b0,i1,b1", "b3,i3", "i1,b1,i1,b1"] {
            set.extend([1, 2, 3].map(|workers| scenario(workers, 1, start, Sending::Prompt, list)));
        }
    }
    for list in ["i1,i1,i1,i1,i1,i1,i1,i1", "b1,i3,b2,i0", "b3,b1", "i5,b1,i1", "i2,b2,i2", "i1,b3,i1"] {
        set.push(scenario(2, 2, Start::BeforeWrap, Sending::Prompt, list));
        set.push(scenario(2, 2, Start::Zero, Sending::Late, list));
    }
    for list in ["i1,i1,i1,i1,i1,i1,i1,i1", "b1,i3,b2", "b3,i2", "i5,i0,i1,i1"] {
        set.push(scenario(3, 2, Start::BeforeWrap, Sending::Prompt, list));
    }
    for list in ["b3,b1", "b4", "i4,i1,i3", "i2,b1,i1"] {
        set.push(scenario(2, 4, Start::BeforeWrap, Sending::Prompt, list));
    }
    set.extend(dissenting());
    set
}

/// Every list of up to three tensors from none to more chunks than W, at every number of workers, window and start; longer
/// lists, and wider windows, where they fit.
pub(crate) fn full() -> Vec<Scenario> {
    let mut set = quick();
    for (workers, window) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)] {
        let most = if workers == 3 && window == 2 { 10 } else { 14 };
        for list in lists(window as u32, 3) {
            for start in [Start::Zero, Start::BeforeWrap] {
                let scenario = Scenario {
                    workers,
                    window,
                    start,
                    sending: Sending::Prompt,
                    tensors: list.clone(),
                    dissent: None,
                };
                // Each slot goes through four phases at least.
                if (4 * window as u32..=most).contains(&scenario.packets()) {
                    if workers <= 2 && scenario.packets() <= 10 {
                        set.push(Scenario { sending: Sending::Late, ..scenario.clone() });
                    }
                    set.push(scenario);
                }
            }
        }
    }
    for list in ["i1,i1,i1,i1,i1,i1,i1,i1,i1,i1,i1,i1", "b3,i1,b3", "b5,i2", "i9,b1,i1", "b2,b2,b2"] {
        set.push(scenario(3, 2, Start::BeforeWrap, Sending::Prompt, list));
    }
    set.push(scenario(3, 1, Start::BeforeWrap, Sending::Late, "i2,b2,i0,b1,i1"));
    for list in ["b6", "i7,b1,i1", "b3,i2,b1", "i16"] {
        set.push(scenario(2, 4, Start::BeforeWrap, Sending::Prompt, list));
    }
    set
}

/// The smallest jobs in which the published algorithm could go wrong.
pub(crate) fn published() -> Vec<Scenario> {
    [1, 2, 3].map(|workers| scenario(workers, 1, Start::Zero, Sending::Prompt, "i4")).into()
}

/// Members that do not call the same.
fn dissenting() -> Vec<Scenario> {
    let pairs = [("i3", "i2"), ("i2,i2", "i2,b2"), ("b2,i1", "b2,i2"), ("i1,i0", "i1,b1"), ("b3", "i3")];
    let both = pairs.map(|(list, dissent)| (list, list_of(dissent)));
    let mut set = Vec::new();
    for (workers, window) in [(2, 1), (3, 1), (2, 2)] {
        for (list, dissent) in &both {
            set.push(Scenario {
                dissent: Some(dissent.clone()),
                ..scenario(workers, window, Start::BeforeWrap, Sending::Prompt, list)
            });
        }
    }
    set
}

fn scenario(workers: usize, window: usize, start: Start, sending: Sending, list: &str) -> Scenario {
    Scenario { workers, window, start, sending, tensors: list_of(list), dissent: None }
}

fn list_of(text: &str) -> Vec<Tensor> {
    text.split(',').map(|tensor| tensor.parse().expect("written here")).collect()
}

/// Every list of one to `longest` tensors.
fn lists(window: u32, longest: usize) -> Vec<Vec<Tensor>> {
    let mut chunks = vec![0, 1, window - 1, window, window + 1, 2 * window, 4 * window];
    chunks.sort_unstable();
    chunks.dedup();
    let forms = [Form::Integer, Form::Block];
    let tensors: Vec<_> =
        forms.iter().flat_map(|&form| chunks.iter().map(move |&chunks| Tensor { form, chunks })).collect();
    let mut all: Vec<Vec<Tensor>> = Vec::new();
    let mut longer: Vec<Vec<Tensor>> = vec![Vec::new()];
    for _ in 0..longest {
        let extend = |list: &Vec<Tensor>| {
            tensors.iter().map(|&tensor| [list.as_slice(), &[tensor]].concat()).collect::<Vec<_>>()
        };
        longer = longer.iter().flat_map(extend).collect();
        all.extend(longer.iter().cloned());
    }
    all
}
