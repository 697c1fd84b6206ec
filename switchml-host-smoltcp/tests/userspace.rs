//! The example `userspace` in a network namespace, with processes on the kernel's stack: the program `switchml` is the
//! switch, and a worker.
//!
//! Needs root, and `switchml` beside this test's own program: `.ci/run userspace` sees to both.

#![cfg(target_os = "linux")]

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

const ELEMENTS: usize = 100_000;

#[test]
#[ignore = "needs root and the program `switchml`: .ci/run userspace"]
fn a_worker_on_a_tap_interface_joins_the_std_switch() {
    let namespace = Namespace::new("tap");
    namespace.ip(&["tuntap", "add", "dev", "tap0", "mode", "tap"]);
    worker_beside_a_std_worker(&namespace, "tap0", "tap:tap0");
}

#[test]
#[ignore = "needs root and the program `switchml`: .ci/run userspace"]
fn a_worker_on_a_raw_socket_joins_the_std_switch() {
    let namespace = Namespace::new("raw");
    namespace.ip(&["link", "add", "near", "type", "veth", "peer", "name", "far"]);
    namespace.ip(&["link", "set", "far", "up"]);
    // Otherwise a run of datagrams that the kernel leaves to a network card to cut comes out in one piece.
    namespace.ip(&["link", "set", "near", "gso_max_segs", "1"]);
    worker_beside_a_std_worker(&namespace, "near", "raw:far");
}

#[test]
#[ignore = "needs root and the program `switchml`: .ci/run userspace"]
fn std_workers_join_an_aggregator_on_a_tap_interface() {
    let namespace = Namespace::new("agg");
    namespace.ip(&["tuntap", "add", "dev", "tap0", "mode", "tap"]);
    namespace.address("tap0");
    let _aggregator =
        namespace.spawn(&example(), &["aggregator", "--device", "tap:tap0", "--address", "10.77.0.2/24"]);
    let mut ranks: Vec<_> = (0..3).map(|rank| namespace.std_worker("10.77.0.2", rank, 3)).collect();
    ranks.iter_mut().for_each(Process::succeed);
    namespace.check(&(0..3).map(|rank| (rank, Format::Npy)).collect::<Vec<_>>());
}

/// Rank 0 is a process on the kernel's stack, as the switch is; rank 1 has a stack of its own.
fn worker_beside_a_std_worker(namespace: &Namespace, kernel_interface: &str, device: &str) {
    namespace.address(kernel_interface);
    let _switch = namespace.spawn(&program(), &["switch", "--listen", "10.77.0.1", "--quiet"]);
    let mut std_worker = namespace.std_worker("10.77.0.1", 0, 2);
    namespace.write_input(1, Format::Raw);
    let (input, output) = (namespace.input(1, Format::Raw), namespace.output(1, Format::Raw));
    let arguments = [
        &["worker", "--device", device, "--address", "10.77.0.2/24", "--aggregator", "10.77.0.1:48864"][..],
        &["--job", "job", "--rank", "1", "--world", "2"],
        &["--input", &input, "--output", &output],
    ];
    let mut own_stack = namespace.spawn(&example(), &arguments.concat());
    own_stack.succeed();
    std_worker.succeed();
    namespace.check(&[(0, Format::Npy), (1, Format::Raw)]);
}

/// Element `i` of rank `rank`: quarters of small integers, whose sums no conversion rounds.
fn element(rank: usize, i: usize) -> f32 {
    (1 + rank) as f32 * ((i % 61) as f32 - 30.0) / 4.0
}

#[derive(Clone, Copy)]
enum Format {
    Npy,
    Raw,
}

/// A network namespace and a directory, both gone when it is dropped.
struct Namespace {
    name: String,
    files: tempfile::TempDir,
}

impl Namespace {
    fn new(what: &str) -> Self {
        let name = format!("switchml-{what}-{}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self { name, files: tempfile::tempdir().expect("a directory for files") };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    fn ip(&self, arguments: &[&str]) {
        run(Command::new("ip").args(["-n", &self.name]).args(arguments));
    }

    /// The kernel's address on an interface.
    fn address(&self, interface: &str) {
        self.ip(&["address", "add", "10.77.0.1/24", "dev", interface]);
        self.ip(&["link", "set", interface, "up"]);
    }

    fn spawn(&self, program: &Path, arguments: &[&str]) -> Process {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program).args(arguments);
        Process(command.spawn().expect("the program starts"))
    }

    fn std_worker(&self, switch: &str, rank: usize, world: usize) -> Process {
        self.write_input(rank, Format::Npy);
        let (input, output) = (self.input(rank, Format::Npy), self.output(rank, Format::Npy));
        let (switch, rank, world) = (format!("{switch}:48864"), rank.to_string(), world.to_string());
        let arguments = [
            &[
                "allreduce",
                "--quiet",
                "--switch",
                &switch,
                "--job",
                "job",
                "--rank",
                &rank,
                "--world",
                &world,
            ][..],
            &["--window", "64", "--chunk", "256", "--input", &input, "--output", &output],
        ];
        self.spawn(&program(), &arguments.concat())
    }

    fn file(&self, name: &str, rank: usize, format: Format) -> String {
        let extension = match format {
            Format::Npy => "npy",
            Format::Raw => "f32",
        };
        let path = self.files.path().join(format!("{name}{rank}.{extension}"));
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    fn input(&self, rank: usize, format: Format) -> String {
        self.file("in", rank, format)
    }

    fn output(&self, rank: usize, format: Format) -> String {
        self.file("out", rank, format)
    }

    fn write_input(&self, rank: usize, format: Format) {
        let mut octets = Vec::new();
        if let Format::Npy = format {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ELEMENTS},), }}");
            octets.extend(b"\x93NUMPY\x01\x00\x76\x00");
            octets.extend(format!("{header:<117}\n").as_bytes());
        }
        octets.extend((0..ELEMENTS).flat_map(|i| element(rank, i).to_le_bytes()));
        std::fs::write(self.input(rank, format), octets).expect("the file is written");
    }

    /// Every rank's output is the exact sum, bit for bit.
    fn check(&self, ranks: &[(usize, Format)]) {
        let sums = (0..ELEMENTS).map(|i| (0..ranks.len()).map(|rank| element(rank, i)).sum::<f32>());
        let expected: Vec<u8> = sums.flat_map(f32::to_le_bytes).collect();
        for &(rank, format) in ranks {
            let output = std::fs::read(self.output(rank, format)).expect("the file is there");
            let octets = &output[output.len() - 4 * ELEMENTS..];
            assert!(octets == expected, "rank {rank} has other sums");
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run(Command::new("ip").args(["netns", "delete", &self.name]));
    }
}

/// A process that ends when it is dropped.
struct Process(Child);

impl Process {
    fn succeed(&mut self) {
        let status = self.wait(Duration::from_secs(60)).expect("it ends in time");
        assert!(status.success(), "{status}");
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.0.try_wait().expect("it is this process's child") {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                ended => return ended,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) {
    let status = command.status().expect("`ip` is there");
    assert!(status.success(), "{command:?}: {status}");
}

/// The directory of all programs of this profile.
fn programs() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.ancestors().nth(2).expect("it is in a directory `deps`").to_owned()
}

fn example() -> PathBuf {
    programs().join("examples/userspace")
}

fn program() -> PathBuf {
    programs().join("switchml")
}
