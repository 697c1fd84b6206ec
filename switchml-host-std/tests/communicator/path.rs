//! A path that is too small for the chunk (W-11), in a network of this test's own.

use std::process::Command;

use switchml_host_std::Error;
use switchml_proto::ChunkSize;

use crate::world::TestSwitch;

const INNER: &str = "path::inside_a_network_with_an_mtu_of_1500";

/// Needs the right to make a network namespace; without it there is nothing to show on loopback.
#[test]
#[allow(clippy::print_stderr, reason = "whoever reads the test's output must see that it was skipped")]
fn a_chunk_that_does_not_fit_is_refused_with_the_largest_that_does() {
    let script = format!(
        "ip link set lo mtu 1500 up && exec {:?} --exact {INNER} --ignored",
        std::env::current_exe().unwrap()
    );
    let own_network = Command::new("unshare").args(["-rn", "ip", "link"]).output();
    if !own_network.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no network namespace can be made here");
        return;
    }
    let output = Command::new("unshare").args(["-rn", "sh", "-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by the test above, in its own network"]
fn inside_a_network_with_an_mtu_of_1500() {
    let switch = TestSwitch::start();
    let error = switch.rank("job", 0, 1).chunk(512).connect().unwrap_err();
    let largest = ChunkSize::from_elements(256).ok();
    assert!(matches!(error, Error::PathTooSmall { largest: told, .. } if told == largest), "{error:?}");
    assert!(error.to_string().ends_with("in one piece: use at most 256"), "{error}");

    let mut comm = switch.rank("job", 0, 1).chunk(256).connect().unwrap();
    let mut tensor = [1.0_f32; 1000];
    comm.all_reduce(&mut tensor, switchml_host_std::ReduceOp::Sum).unwrap();
    assert_eq!(tensor, [1.0; 1000]);
}
