//! What keys do.
//!
//! ```text
//! key ─▶ a question or a typed line, while there is one ─▶ keys of every view ─▶ keys of the view
//! ```

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::actions::{self, Offer};
use crate::command::Command;
use crate::lists::Filter;
use crate::navigate;
use crate::state::{Mode, Prompt, State, View};

/// The longest line that can be typed.
const LONGEST: usize = 100;

/// Takes a key, and tells what it asks of the program.
pub(crate) fn key(state: &mut State, key: KeyEvent) -> Option<Command> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    state.shown.message = None;
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Command::Quit),
            KeyCode::Char('z') => Some(Command::Suspend),
            KeyCode::Char('l') => Some(Command::Redraw),
            _ => None,
        };
    }
    if state.shown.question.is_some() {
        return answer(state, key.code);
    }
    if state.shown.prompt.is_some() {
        return typed(state, key.code);
    }
    let is_text = matches!(state.shown.views.last(), Some(View::Help(_) | View::Page(..)));
    if is_text {
        // A text is left and moved in as with a pager.
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => {
                state.shown.views.pop();
            }
            code => navigate::scroll(state, code),
        }
        return None;
    }
    match key.code {
        KeyCode::Char('q') => Some(Command::Quit),
        KeyCode::Char('?') => {
            state.shown.views.push(View::Help(0));
            None
        }
        KeyCode::Char(' ') => {
            pause(state);
            None
        }
        KeyCode::Char('t') => step(state, 1),
        KeyCode::Char('T') => step(state, -1),
        KeyCode::Char('b') => {
            if is_replay(state) {
                state.shown.prompt = Some(Prompt::Jump(String::new()));
            }
            None
        }
        KeyCode::Char('/') => {
            state.shown.prompt = Some(Prompt::Filter(state.shown.filter.clone()));
            None
        }
        KeyCode::Char('p') => {
            act(state, |state| state.history.shown().map(actions::guard));
            None
        }
        KeyCode::Char('l') => {
            act(state, |state| {
                let chosen = navigate::chosen(state);
                state.history.shown().map(|frame| actions::limit(frame, chosen.as_ref()))
            });
            None
        }
        KeyCode::Char('r') => {
            act(state, |state| {
                let chosen = navigate::chosen(state);
                state.history.shown().map(|frame| actions::raise(frame, chosen.as_ref()))
            });
            None
        }
        code => navigate::key(state, code),
    }
}

/// Stops the screen, or has it go on.
fn pause(state: &mut State) {
    if state.options.mode == Mode::Replay {
        let text = "a recording stands still: t, T and b move in it";
        state.shown.message = Some(text.to_owned());
        return;
    }
    state.shown.is_paused = !state.shown.is_paused;
    match state.shown.is_paused {
        true => state.history.pause(),
        false => state.history.resume(),
    }
}

fn step(state: &mut State, frames: i32) -> Option<Command> {
    is_replay(state).then_some(Command::Step(frames))
}

fn is_replay(state: &mut State) -> bool {
    let is_replay = state.options.mode == Mode::Replay;
    if !is_replay {
        let text = "this is the machine now: t, T and b move in a recording (floodwall record)";
        state.shown.message = Some(text.to_owned());
    }
    is_replay
}

/// Asks for an action, or says why it can't be taken.
fn act(state: &mut State, offer: impl FnOnce(&mut State) -> Option<Offer>) {
    let why_not = match state.options.mode {
        Mode::Live => None,
        Mode::Simulated => Some("the machine is simulated: no command is run"),
        Mode::Replay => Some("this is a recording: no command is run"),
    };
    if let Some(why_not) = why_not {
        state.shown.message = Some(why_not.to_owned());
        return;
    }
    match offer(state) {
        Some(Offer::Ask(question)) => state.shown.question = Some(question),
        Some(Offer::Refuse(why)) => state.shown.message = Some(why),
        None => {}
    }
}

/// Only `y` runs the command, and only for root.
fn answer(state: &mut State, code: KeyCode) -> Option<Command> {
    let question = state.shown.question.take()?;
    let runs = matches!(code, KeyCode::Char('y' | 'Y')) && state.options.is_root;
    runs.then_some(Command::Run(question.arguments))
}

fn typed(state: &mut State, code: KeyCode) -> Option<Command> {
    let mut prompt = state.shown.prompt.take()?;
    let text = match &mut prompt {
        Prompt::Filter(_) => &mut state.shown.filter.text,
        Prompt::Jump(text) => text,
    };
    match code {
        KeyCode::Char(character) if text.len() < LONGEST => text.push(character),
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Enter => {
            return match prompt {
                Prompt::Filter(_) => None,
                Prompt::Jump(text) => (!text.trim().is_empty()).then_some(Command::Jump(text)),
            };
        }
        KeyCode::Esc => {
            if let Prompt::Filter(before) = prompt {
                // The first Esc takes back what was typed, a second one the filter.
                let is_same = before == state.shown.filter;
                state.shown.filter = if is_same { Filter::default() } else { before };
            }
            return None;
        }
        _ => {}
    }
    state.shown.prompt = Some(prompt);
    None
}
