//! Actions that apply settings for a time.

use floodwall_model::diagnosis::Action;
use floodwall_model::printable::shell_word as word;

/// For a time, so that it can be tried.
const APPLY: &str = "floodwall apply --for 10m";

/// An action that applies settings for a time.
pub(super) fn on_trial(what: String, settings: Vec<String>, price: String) -> Action {
    let words: Vec<String> = settings.iter().map(|setting| word(setting)).collect();
    let command = Some(format!("{APPLY} {}", words.join(" ")));
    Action { what, command, settings, gain: None, price }
}
