//! Four processes and a switch give, to the bit, what numpy computes from the rules N-1 to N-6.
//!
//! `data/` holds arrays that `numpy_oracle.py` made. Where SWITCHML_PYTHON names a Python that has numpy, it makes
//! fresh ones too, from a seed that a failure names.

#![allow(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod program_common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use program_common::{Running, output, parts, switch, switchml};
use serde::Deserialize;

/// Arrays that belong together, by their names.
#[derive(Deserialize)]
struct Case {
    inputs: Vec<String>,
    operation: String,
    factor: Option<f32>,
    chunk: usize,
    expected: String,
}

#[test]
fn n1_to_n6_stored_arrays() {
    reduces_as_numpy_does(&tests().join("data"));
}

#[test]
fn n1_to_n6_fresh_arrays() {
    let Some(python) = std::env::var_os("SWITCHML_PYTHON") else { return };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // The directory's name is part of what a failure says.
    let directory = tempfile::Builder::new().prefix(&format!("seed{seed}-")).tempdir().unwrap();
    let oracle = tests().join("numpy_oracle.py");
    output(Command::new(&python).arg(oracle).arg(directory.path()).arg(seed.to_string()));
    let results = reduces_as_numpy_does(directory.path());
    let load = "import sys, numpy\nfor name in sys.argv[1:]: numpy.load(name)";
    output(Command::new(&python).args(["-c", load]).args(results.iter().map(|(_, path)| path)));
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The results, with the directory that they are in.
fn reduces_as_numpy_does(directory: &Path) -> Vec<(tempfile::TempDir, PathBuf)> {
    let (_switch, address) = switch("--lanes 2");
    let cases = std::fs::read(directory.join("cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&cases).unwrap();
    let mut results = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let outputs = tempfile::tempdir().unwrap();
        let world = case.inputs.len();
        let lanes = 1 + number % 2;
        let factor = case.factor.map_or(String::new(), |factor| format!("--factor {factor}"));
        let workers: Vec<_> = (0..world)
            .map(|rank| {
                let mut worker = switchml(&format!(
                    "allreduce --switch {address} --job {} --rank {rank} --world {world} --op {} --chunk {} --lanes \
                     {lanes} --window 16 {factor}",
                    case.expected, case.operation, case.chunk
                ));
                worker.arg("--input").arg(directory.join(&case.inputs[rank]));
                worker.arg("--output").arg(outputs.path().join(format!("{rank}.npy")));
                Running::start(&mut worker)
            })
            .collect();
        for worker in workers {
            worker.end().succeeded();
        }
        let (header, elements) = parts(&directory.join(&case.expected));
        for rank in 0..world {
            let (found_header, found) = parts(&outputs.path().join(format!("{rank}.npy")));
            let name = directory.join(&case.expected);
            assert_eq!(found_header, header, "{}, rank {rank}", name.display());
            let first = elements.iter().zip(&found).position(|(expected, found)| expected != found);
            assert!(
                found.len() == elements.len() && first.is_none(),
                "{}, rank {rank}: octet {first:?} of the elements differs",
                name.display()
            );
        }
        let result = outputs.path().join("0.npy");
        results.push((outputs, result));
    }
    results
}
