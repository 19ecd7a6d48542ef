//! A compared figure in words. Sentences, cards, tables, charts and Markdown take their words from
//! here, so that they agree.

use floodwall_model::units::Rate;
use floodwall_stats::versus::{Compared, Figure, Verdict};

use crate::numbers::{UNKNOWN, count, duration_us, percent};

/// From this ratio on rates and latencies are written as a multiple, below it in percent.
const MULTIPLE_FROM: f64 = 1.5;

/// The comparisons that are shown. A p99 that can't be compared is left out where the slowest
/// operations are compared instead.
pub(crate) fn shown(versus: &[Compared]) -> impl Iterator<Item = &Compared> {
    let slowest = versus.iter().any(|c| c.figure == Figure::VictimSlowestUs);
    versus.iter().filter(move |c| !(slowest && c.figure == Figure::VictimP99Us))
}

/// What a figure is called; `operations` is what the victim's are called.
pub(crate) fn name(figure: Figure, operations: &str) -> &str {
    match figure {
        Figure::VictimIops => operations,
        Figure::VictimP99Us => "p99",
        Figure::VictimSlowestUs => "slowest",
        Figure::FloodBytesPerS => "flood",
        Figure::BurstBytesPerS => "bursts",
        Figure::DeadShare => "stalled seconds",
    }
}

/// A figure's value with its unit: `1,508/s`, `28.7 ms`, `221 MB/s`, `12 %`.
pub(crate) fn value(figure: Figure, value: Option<f64>) -> String {
    let Some(v) = value else { return UNKNOWN.into() };
    match figure {
        Figure::VictimIops => format!("{}/s", count(v)),
        Figure::VictimP99Us | Figure::VictimSlowestUs => duration_us(v),
        Figure::FloodBytesPerS | Figure::BurstBytesPerS => Rate(v).to_string(),
        Figure::DeadShare => format!("{} %", percent(v)),
    }
}

/// Contender over reference: `21×`, `88 %`; `None` where there is no ratio, and of dead seconds,
/// which differ by points.
pub(crate) fn ratio(c: &Compared) -> Option<String> {
    let e = c.difference.filter(|_| c.figure != Figure::DeadShare)?;
    Some(if multiple(c.figure, e.value) {
        format!("{}×", count(e.value))
    } else {
        format!("{} %", percent(e.value))
    })
}

fn multiple(figure: Figure, ratio: f64) -> bool {
    let price = matches!(figure, Figure::FloodBytesPerS | Figure::BurstBytesPerS);
    !price && ratio >= MULTIPLE_FROM
}

/// The interval of a difference, without unit: `18 – 25`, `86 – 90`; of dead seconds in points of
/// the time.
pub(crate) fn interval(c: &Compared) -> Option<String> {
    let e = c.difference?;
    let (low, high) = e.ends()?;
    let signed = |share: f64| {
        let sign = if share < 0.0 { "−" } else { "" };
        format!("{sign}{}", percent(share.abs()))
    };
    Some(match c.figure {
        Figure::DeadShare => format!("{} to {} points", signed(low), signed(high)),
        figure if multiple(figure, e.value) => format!("{} – {}", count(low), count(high)),
        _ => format!("{} – {}", percent(low), percent(high)),
    })
}

/// The ratio with its interval: `21× (18 – 25)`, `88 % (86 – 90)`.
pub(crate) fn factor(c: &Compared) -> Option<String> {
    let ratio = ratio(c)?;
    Some(interval(c).map_or_else(|| ratio.clone(), |interval| format!("{ratio} ({interval})")))
}

/// The verdict in words.
pub(crate) fn verdict(c: &Compared) -> &'static str {
    match c.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "the same",
        Verdict::Untold => "could not be told",
        Verdict::Unknown => "not known",
    }
}

/// What a sentence adds, in brackets, to a figure that is neither surely better nor surely worse;
/// nothing to one that is.
pub(crate) fn unsure(c: &Compared) -> String {
    let verdict = verdict(c);
    match c.verdict {
        Verdict::Better | Verdict::Worse => String::new(),
        // What these trials' slowest took is a fact and no estimate.
        _ if c.figure == Figure::VictimSlowestUs => String::new(),
        Verdict::Same => format!(" ({verdict})"),
        Verdict::Untold => {
            let unit = match (c.figure, c.difference) {
                (Figure::DeadShare, _) | (_, None) => "",
                (figure, Some(e)) if multiple(figure, e.value) => "×",
                _ => " %",
            };
            let interval = interval(c).map_or_else(String::new, |i| format!(": {i}{unit}"));
            format!(" ({verdict}{interval})")
        }
        Verdict::Unknown => {
            let why = c.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            format!(" ({verdict}{why})")
        }
    }
}

/// A figure of a contender beside the reference's: `commits 21× (18 – 25)`,
/// `p99 12 ms instead of 1.17 s (1.0 % (1.0 – 1.1))`.
pub(crate) fn phrase(c: &Compared, operations: &str) -> String {
    let name = name(c.figure, operations);
    let (now, before) = (value(c.figure, c.value), value(c.figure, c.reference));
    match (c.figure, factor(c)) {
        (Figure::DeadShare, _) => {
            // The unit once for the share of the time, as people say it.
            let now = now.trim_end_matches(" %");
            let interval = match c.verdict {
                Verdict::Untold => interval(c).map_or_else(String::new, |i| format!(" ({i})")),
                _ => String::new(),
            };
            format!("{name} {now} % of the time instead of {before}{interval}")
        }
        (Figure::VictimP99Us | Figure::VictimSlowestUs, Some(factor)) => {
            format!("{name} {now} instead of {before} ({factor})")
        }
        (_, Some(factor)) => format!("{name} {factor}"),
        (_, None) => format!("{name} {now} instead of {before}"),
    }
}
