//! The README's facts, against what they are about.

use std::process::Command;

const README: &str = include_str!("../../README.md");

/// Lines of the fenced blocks of shell commands.
fn commands() -> Vec<&'static str> {
    let mut shell = false;
    let mut commands = Vec::new();
    for line in README.lines() {
        match line {
            "```sh" => shell = true,
            "```" => shell = false,
            line if shell => commands.push(line),
            _ => {}
        }
    }
    commands
}

/// What `switchml ARGUMENTS --help` prints.
fn help(arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_switchml");
    let output = Command::new(program).args(arguments).arg("--help").output().expect("the program starts");
    assert!(output.status.success(), "switchml {arguments:?} --help: {}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_stated_toolchain_is_that_of_the_manifest() {
    let stated = format!("With a Rust toolchain ({} or newer)", env!("CARGO_PKG_RUST_VERSION"));
    assert!(README.contains(&stated), "the README does not say: {stated}");
}

#[test]
fn subcommands_and_options_exist() {
    let lines = commands().into_iter().chain(README.split('`').filter(|code| code.starts_with("switchml ")));
    let calls: Vec<&str> = lines
        .filter_map(|line| {
            line.strip_prefix("switchml ").or(line.split_once("--bin switchml -- ").map(|(_, call)| call))
        })
        .filter(|call| !call.starts_with("--"))
        .collect();
    assert!(calls.len() >= 5, "the README's calls of the program were not found: {calls:?}");
    for call in calls {
        let mut words = call.split_whitespace();
        let subcommand = words.next().expect("a subcommand");
        let help = help(&[subcommand]);
        for option in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(&format!("{option} ")), "`switchml {call}`: there is no {option}");
        }
    }
}

#[test]
fn linked_files_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let links: Vec<&str> =
        README.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link).collect();
    assert!(links.len() >= 5, "the README's links were not found: {links:?}");
    for link in links.into_iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
        assert!(
            std::path::Path::new(root).join(link).exists(),
            "the README links to {link}, which does not exist"
        );
    }
}
