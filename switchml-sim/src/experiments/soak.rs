//! `switchml-sim soak`: random schedules, each checked against the oracle.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use switchml_sim::harness::{Pool, Scenario};
use switchml_sim::network::pcap::Capture;
use switchml_sim::published::Published;
use switchml_sim::soak::{Algorithm, minimal, once, soak};

/// Random jobs on random networks: exact sums whatever the network does
#[derive(Args)]
pub(crate) struct Options {
    /// How many
    #[arg(long, default_value_t = 10_000)]
    schedules: u64,
    /// The seed of the first one; the others follow
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The published algorithm, which has no seq to check, and is expected to give wrong sums
    #[arg(long)]
    published: bool,
    /// Run the first schedule only, and write all its datagrams to this file, as pcapng
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let algorithm = if options.published { Algorithm::Published } else { Algorithm::Protocol };
    if let Some(file) = &options.capture {
        return capture(options.seed, algorithm, file);
    }
    let start = Instant::now();
    let totals = soak(options.seed, options.schedules, algorithm);
    let seconds = start.elapsed().as_secs_f64();
    println!("{totals}");
    println!("in {seconds:.1} s, {:.0} schedules/s", totals.schedules as f64 / seconds);
    if options.published {
        ensure!(totals.wrong > 0, "the published algorithm gave no wrong sum: the soak sees nothing");
        return trace();
    }
    if totals.wrong + totals.broken > 0 {
        bail!("run one of them again with --seed SEED --schedules 1, or write it with --capture FILE");
    }
    Ok(())
}

fn capture(seed: u64, algorithm: Algorithm, file: &PathBuf) -> Result<()> {
    let name = file.display().to_string();
    let mut capture = Capture::new(BufWriter::new(File::create(file).context(name.clone())?))?;
    let result = once(seed, algorithm, &mut capture);
    capture.finish()?.into_inner().context(name)?;
    let outcome = result?;
    println!(
        "seed {seed}: right, with {} faults in {} datagrams",
        outcome.network.faults(),
        outcome.network.datagrams
    );
    Ok(())
}

/// The shortest trace that ends in a wrong sum, of the published algorithm; and that the protocol's own has none.
fn trace() -> Result<()> {
    const LONGEST: usize = 8;
    let scenario = Scenario::new(0, 2, 1, 1, 32)?;
    let steps = minimal(|run| run(&mut Published::new(&scenario)), LONGEST)
        .context("no short trace of the published algorithm ends in a wrong sum")?;
    println!("\nThe published algorithm, two workers, one slot; rank r sends (r + 1) * 10^seq:");
    for (number, step) in steps.iter().enumerate() {
        println!("  {}. {step}", number + 1);
    }
    let none = minimal(
        |run| {
            let mut pool = Pool::new(&scenario);
            run(&mut pool.planes().expect("the scenario has a first seq that a session can have")[0]);
        },
        LONGEST,
    );
    ensure!(none.is_none(), "the protocol's aggregator gives a wrong sum: {none:?}");
    println!(
        "The protocol's aggregator gives none, whatever {LONGEST} packets arrive, in any order, again or not."
    );
    Ok(())
}
