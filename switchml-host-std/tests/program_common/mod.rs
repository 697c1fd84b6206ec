//! Runs the built program, and waits for what it says.

#![allow(dead_code, reason = "each test file uses a part of it")]

use core::time::Duration;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

/// What takes longer than this hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments, separated by spaces.
pub(crate) fn switchml(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchml"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &str) -> Ended {
    Running::start(&mut switchml(arguments)).end()
}

/// A process at work; it is killed when the test is over.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    said: Vec<String>,
}

/// What a process has left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, stdout: lines(stdout), stderr: lines(stderr), said: Vec::new() }
    }

    /// Waits for a line on standard error that contains `text`.
    pub(crate) fn says(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.stderr.recv_timeout(left) else {
                panic!("it did not say {text:?}, but {:#?}", self.said)
            };
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// All that it has said on standard error until now.
    pub(crate) fn said_so_far(&mut self) -> &[String] {
        self.said.extend(self.stderr.try_iter());
        &self.said
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Its child processes, in the order they were started.
    #[cfg(target_os = "linux")]
    pub(crate) fn children(&self) -> Vec<u32> {
        let id = self.child.id();
        let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        threads
            .flat_map(|thread| {
                let children = fs::read_to_string(thread.unwrap().path().join("children")).unwrap();
                children.split_whitespace().map(|child| child.parse().unwrap()).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Kills it, as SIGKILL does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(
                Instant::now() < deadline,
                "it does not end; it said {:#?}",
                self.stderr.try_iter().collect::<Vec<_>>()
            );
            thread::sleep(Duration::from_millis(5));
        };
        let stderr = self.said.drain(..).chain(self.stderr.iter()).collect::<Vec<_>>().join("\n");
        Ended { code, stdout: self.stdout.iter().collect::<Vec<_>>().join("\n"), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

impl Ended {
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Failed with one line on standard error, which contains `text`; of lines that say what is waited for, there may
    /// be any number before.
    #[track_caller]
    pub(crate) fn failed_with(self, text: &str) -> Self {
        self.failed_with_any(&[text])
    }

    /// As [`failed_with`](Self::failed_with), with one of these texts.
    #[track_caller]
    pub(crate) fn failed_with_any(self, texts: &[&str]) -> Self {
        assert_eq!(self.code, Some(1), "{self:#?}");
        let errors: Vec<_> = self.stderr.lines().filter(|line| line.starts_with("switchml ")).collect();
        let told = texts.iter().any(|text| errors.iter().all(|error| error.contains(text)));
        assert!(errors.len() == 1 && told, "not {texts:?}, but {self:#?}");
        self
    }
}

/// A software switch on free ports, and its address.
pub(crate) fn switch(arguments: &str) -> (Running, String) {
    let mut switch = Running::start(&mut switchml(&format!("switch --port-base 0 {arguments}")));
    let line = switch.says("listening on ");
    let address = line.strip_prefix("listening on ").unwrap().split(',').next().unwrap().to_owned();
    (switch, address)
}

/// An array of 4-octet elements, of such a type and shape.
pub(crate) fn npy(path: &Path, descr: &str, shape: &str, elements: impl Iterator<Item = f32>) -> PathBuf {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut octets = b"\x93NUMPY\x01\x00".to_vec();
    octets.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    octets.extend(header.bytes());
    octets.extend(elements.flat_map(f32::to_le_bytes));
    fs::write(path, octets).unwrap();
    path.to_path_buf()
}

/// Header and elements of an `.npy` file of version 1; spaces in the header mean nothing.
pub(crate) fn parts(path: &Path) -> (String, Vec<u8>) {
    let octets = fs::read(path).unwrap();
    let length = usize::from(u16::from_le_bytes([octets[8], octets[9]]));
    let (header, elements) = octets[10..].split_at(length);
    let header = String::from_utf8(header.to_vec()).unwrap();
    let header: String = header.chars().filter(|c| !c.is_whitespace()).collect();
    (header.replace(",}", "}").replace(",)", ")"), elements.to_vec())
}

/// What a command left, if it went well.
pub(crate) fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}
