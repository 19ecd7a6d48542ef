//! The numbers behind the figures, as one JSON document:
//! `{"schema": "floodwall/report/1", "results": […]}`.
//!
//! The contents of the result itself (trials, intervals, histograms) stay there; this is computed
//! from them.

use serde_json::{Value, json};

use super::{Study, course, curve, effects};
use floodwall_model::trial::PhaseKind;

/// The name of the document's schema.
pub const SCHEMA: &str = "floodwall/report/1";

/// Of several results.
#[must_use]
pub fn document(studies: &[&Study<'_>]) -> Value {
    json!({ "schema": SCHEMA, "results": studies.iter().map(|s| result(s)).collect::<Vec<_>>() })
}

fn result(study: &Study<'_>) -> Value {
    let run = &study.document.run;
    let settings: Vec<Value> = study
        .subjects
        .iter()
        .map(|s| {
            json!({
                "name": s.name,
                "setting": s.setting,
                "role": s.role.name(),
                "on_frontier": s.on_frontier,
                "trials": s.trials,
                "disturbed": s.disturbed,
                "failure": s.failure,
                "score": s.score,
                "summary": s.summary,
                "versus": s.versus,
                "passed_over": s.passed_over,
                "history": history(study, s),
                "percentiles": {
                    "victim": percentiles(study, s, PhaseKind::Victim),
                    "both": percentiles(study, s, PhaseKind::Both),
                },
            })
        })
        .collect();
    let effects: Vec<Value> = effects(study)
        .iter()
        .map(|e| {
            let values = e.values.iter().map(|v| {
                json!({
                    "value": v.value,
                    "as_it_was": v.is_default,
                    "settings": v.subjects,
                    "changed_alone": v.alone,
                    "victim_kept_median": v.victim,
                    "flood_kept_median": v.flood,
                })
            });
            json!({ "knob": e.knob, "values": values.collect::<Vec<_>>() })
        })
        .collect();
    json!({
        "source": study.source,
        "command": run.command,
        "status": run.status,
        "started_at_unix_s": run.started_at_unix_s,
        "seconds": run.seconds,
        "host": run.host,
        "device": run.device,
        "filesystem": run.filesystem,
        "scenario": study.document.scenario,
        "sentence": study.sentence(),
        "recommended": study.document.contest.as_ref().and_then(|c| c.recommended.as_ref()),
        "settings": settings,
        "knobs": effects,
    })
}

/// Columns, so that they go straight into whatever plots.
fn history(study: &Study<'_>, subject: &super::Subject) -> Value {
    let course = course(study, subject);
    let moments = &course.moments;
    macro_rules! column {
        ($field:ident) => {
            moments.iter().map(|m| m.$field).collect::<Vec<_>>()
        };
    }
    let band = |m: &super::Moment| course.bands.get(m.band);
    json!({
        "at_s": column!(at_s),
        "phase": moments.iter().map(|m| band(m).map(|b| b.kind.name())).collect::<Vec<_>>(),
        "round": moments.iter().map(|m| band(m).map(|b| b.round)).collect::<Vec<_>>(),
        "p50_us": column!(p50_us),
        "p99_us": column!(p99_us),
        "max_us": column!(max_us),
        "operations_per_s": column!(ops_per_s),
        "flood_bytes_per_s": column!(flood_bytes_per_s),
        "written_bytes_per_s": column!(written_bytes_per_s),
        "dirty_bytes": column!(dirty_bytes),
        "writeback_bytes": column!(writeback_bytes),
        "dirty_threshold_bytes": column!(limit_bytes),
        "background_threshold_bytes": column!(background_bytes),
        "dead": column!(is_dead),
    })
}

fn percentiles(study: &Study<'_>, subject: &super::Subject, kind: PhaseKind) -> Value {
    let counts = study.latencies(subject, kind);
    curve(&counts).map_or(Value::Null, |c| {
        let percent = |nines: f64| 100.0 * (1.0 - 10f64.powf(-nines));
        json!({
            "operations": c.operations,
            "percent": c.points.iter().map(|p| percent(p.0)).collect::<Vec<_>>(),
            "us": c.points.iter().map(|p| p.1).collect::<Vec<_>>(),
        })
    })
}
