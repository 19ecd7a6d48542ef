//! What the victim does, and for how long.

use serde_json::{Value, json};

/// Of each measurement, unless others are asked for.
pub(super) const SECONDS: u32 = 30;

/// The arguments.
#[derive(clap::Args, Clone)]
pub(crate) struct Load {
    /// Seconds of each measurement
    #[arg(long, default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(5..=600))]
    pub(super) seconds: u32,
    /// Connections to PostgreSQL and to MariaDB
    #[arg(long, default_value_t = 10)]
    pub(super) clients: u32,
    /// Size of the database: a unit is 16 MB of PostgreSQL (pgbench's scale) and 5 MB of MariaDB
    #[arg(long, default_value_t = 20)]
    pub(super) scale: u32,
    /// Transactions a second that PostgreSQL is asked for, whatever it takes; as many as it can
    /// without it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    /// What the way 'paced' lets the flood write, a second
    #[arg(long)]
    pub(super) pace: Option<String>,
}

impl Load {
    /// What a stored trial must agree with. `rate` and `pace` are absent where they are not asked
    /// for.
    pub(super) fn plan(&self) -> Value {
        let mut plan =
            json!({ "seconds": self.seconds, "clients": self.clients, "scale": self.scale });
        if let Some(rate) = self.rate {
            plan["rate"] = json!(rate);
        }
        if let Some(pace) = &self.pace {
            plan["pace"] = json!(pace);
        }
        plan
    }

    /// The same as arguments.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = vec![
            format!("--seconds={}", self.seconds),
            format!("--clients={}", self.clients),
            format!("--scale={}", self.scale),
        ];
        args.extend(self.rate.map(|rate| format!("--rate={rate}")));
        args.extend(self.pace.as_ref().map(|pace| format!("--pace={pace}")));
        args
    }
}

/// The name that a value has on the command line, in files and in tables.
pub(super) fn name(of: impl clap::ValueEnum) -> String {
    of.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
