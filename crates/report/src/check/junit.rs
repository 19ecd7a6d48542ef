//! A check as a JUnit report, as CI systems read it: a suite with a case for each run.

use super::{Check, Grade, Run};
use crate::html::markup::escaped;
use crate::numbers::duration_us;

/// A check for CI systems.
#[must_use]
pub fn junit(check: &Check) -> String {
    let suite = format!("floodwall check {}", check.goal.program);
    let count =
        |grade: Option<Grade>| check.runs.iter().filter(|run| of(check, run) == grade).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{}\" \
         tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">\n",
        escaped(&suite),
        check.runs.len(),
        count(Some(Grade::Slow)),
        count(Some(Grade::Unknown)),
        count(None),
        check.seconds
    );
    for run in &check.runs {
        let seconds = run.measured.as_ref().map_or(0.0, |measured| measured.seconds);
        xml.push_str(&format!(
            "<testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\">{}</testcase>\n",
            escaped(&format!("floodwall.check.{}", check.goal.program)),
            escaped(run.beside.name()),
            outcome(check, run)
        ));
    }
    let sentence = super::verdict(check).sentence;
    xml.push_str(&format!("<system-out>{}</system-out>\n", escaped(&sentence)));
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// The grade of a run; `None` if it was left out.
fn of(check: &Check, run: &Run) -> Option<Grade> {
    run.measured.as_ref().ok().map(|measured| check.goal.grade(measured))
}

fn outcome(check: &Check, run: &Run) -> String {
    let goal = &check.goal;
    let limit = duration_us(goal.limit.as_secs_f64() * 1e6);
    match (&run.measured, of(check, run)) {
        (Err(why), _) => format!("<skipped message=\"{}\"/>", escaped(why)),
        (Ok(measured), Some(Grade::Slow)) => {
            let figure = super::verdict::figure(goal.counted(measured)).unwrap_or_default();
            let why = format!("the p99 of {} is {figure}; the limit is {limit}", goal.operation());
            format!("<failure message=\"{}\"/>", escaped(&why))
        }
        (Ok(measured), Some(Grade::Unknown)) => {
            let n = goal.counted(measured).count();
            let why = format!("{n} {}s are too few for a p99, which takes 100", goal.operation());
            format!("<error message=\"{}\"/>", escaped(&why))
        }
        (Ok(_), _) => String::new(),
    }
}
