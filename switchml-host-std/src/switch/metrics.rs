//! A snapshot in Prometheus' text format, version 0.0.4.

use core::fmt::{self, Write};

use switchml_proto::aggregator::Reject;
use switchml_proto::control::SessionState;

use super::snapshot::{SessionSnapshot, Snapshot};

/// The text for `snapshot`.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, snapshot);
    out
}

fn write(out: &mut String, snapshot: &Snapshot) -> fmt::Result {
    let sessions = &snapshot.sessions;
    family(out, "switchml_jobs", "gauge", "Jobs by where they are in their life.")?;
    for (name, state) in
        [("joining", SessionState::Joining), ("ready", SessionState::Ready), ("ending", SessionState::Ending)]
    {
        let count = sessions.iter().filter(|session| session.state == state).count();
        writeln!(out, "switchml_jobs{{state=\"{name}\"}} {count}")?;
    }

    family(out, "switchml_job_workers", "gauge", "World size of a job.")?;
    for session in sessions {
        writeln!(out, "switchml_job_workers{{{}}} {}", Job(session), session.world_size)?;
    }
    family(out, "switchml_job_missing_workers", "gauge", "Ranks of a job that have not joined.")?;
    for session in sessions {
        writeln!(out, "switchml_job_missing_workers{{{}}} {}", Job(session), session.missing.len())?;
    }

    family(out, "switchml_rank_silence_seconds", "gauge", "Time since a rank last renewed its lease.")?;
    for session in sessions {
        for (rank, age) in session.ages.iter().enumerate() {
            if let Some(age) = age {
                let job = Job(session);
                writeln!(
                    out,
                    "switchml_rank_silence_seconds{{{job},rank=\"{rank}\"}} {:.3}",
                    age.as_secs_f64()
                )?;
            }
        }
    }

    family(
        out,
        "switchml_packets_total",
        "counter",
        "Data packets of a rank by what became of them (A-8); rejected ones by their reason.",
    )?;
    for session in sessions {
        for port in &session.ports {
            for (name, count) in port.counters.iter() {
                let (job, rank, lane) = (Job(session), port.rank, port.lane);
                write!(out, "switchml_packets_total{{{job},rank=\"{rank}\",lane=\"{lane}\",")?;
                // A rejected packet has the reason as its outcome's detail; the others have none.
                match Reject::NAMES.contains(&name) {
                    true => writeln!(out, "outcome=\"rejected\",reason=\"{name}\"}} {count}")?,
                    false => writeln!(out, "outcome=\"{name}\",reason=\"\"}} {count}")?,
                }
            }
        }
    }

    family(
        out,
        "switchml_unknown_source_total",
        "counter",
        "Data packets rejected because their source has not joined (W-10).",
    )?;
    for (lane, counts) in snapshot.lanes.iter().enumerate() {
        writeln!(out, "switchml_unknown_source_total{{lane=\"{lane}\"}} {}", counts.unknown_source)?;
    }
    family(
        out,
        "switchml_unsent_total",
        "counter",
        "Datagrams not sent: dropped with full buffers, or too long for their path (W-11).",
    )?;
    for (lane, counts) in snapshot.lanes.iter().enumerate() {
        writeln!(out, "switchml_unsent_total{{lane=\"{lane}\",reason=\"dropped\"}} {}", counts.dropped)?;
        writeln!(out, "switchml_unsent_total{{lane=\"{lane}\",reason=\"too_long\"}} {}", counts.too_long)?;
    }
    family(
        out,
        "switchml_unheard_total",
        "counter",
        "Datagrams of sources that have not joined, not looked at because there were too many.",
    )?;
    for (lane, counts) in snapshot.lanes.iter().enumerate() {
        writeln!(out, "switchml_unheard_total{{lane=\"{lane}\"}} {}", counts.unheard)?;
    }
    family(out, "switchml_control_total", "counter", "What happened with control messages.")?;
    for (name, count) in snapshot.control.iter() {
        writeln!(out, "switchml_control_total{{event=\"{name}\"}} {count}")?;
    }
    Ok(())
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// The labels that name a session's job.
struct Job<'a>(&'a SessionSnapshot);

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("job=\"")?;
        for c in self.0.name.as_str().chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        write!(f, "\",run=\"{}\"", self.0.run)
    }
}
