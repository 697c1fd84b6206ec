use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    options: Options,
}

#[test]
fn the_defaults_are_those_of_the_library() {
    let Program { options } = Program::parse_from(["switch"]);
    let config = config(&options).expect("no faults are asked for");
    assert_eq!(format!("{config:?}"), format!("{:?}", SwitchConfig::new(options.listen)));
    assert!(options.listen.is_loopback());
}
