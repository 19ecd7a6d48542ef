//! Moving in a view and between views: selections, orders, pages.

use floodwall_model::frame::Process;
use ratatui::crossterm::event::KeyCode;

use crate::command::Command;
use crate::cursor::Cursor;
use crate::disks::DISK_FIELDS;
use crate::fields::{Field, USES, WAITS, WRITES};
use crate::lists::{Filter, ProcessKey, is_of, key_of};
use crate::state::{Lists, Main, Mode, Pane, Processes, State, View};

/// Takes a key that depends on the view.
pub(crate) fn key(state: &mut State, code: KeyCode) -> Option<Command> {
    match code {
        KeyCode::Esc if state.shown.views.pop().is_none() => {
            state.shown.filter = Filter::default();
            None
        }
        KeyCode::Esc => None,
        KeyCode::Char('S') => {
            order(state);
            None
        }
        KeyCode::Char('u') => {
            let workload = chosen(state).map(|process| process.workload);
            match workload.filter(|workload| !workload.is_unknown()) {
                Some(workload) => view(state, View::Workload(workload, Processes::default())),
                None => say(state, "its unit, pod or container is not known"),
            }
        }
        KeyCode::Char('d') => match chosen(state).and_then(|process| process.disk) {
            Some(disk) => view(state, View::Device(disk, Processes::default())),
            None => say(state, "its disk is not known"),
        },
        KeyCode::Char('f') => match state.shown.views.last() {
            Some(View::Process((pid, _), _)) => ask_files(state, *pid),
            _ => None,
        },
        KeyCode::Char('e') => explain(state),
        KeyCode::Enter => open(state),
        KeyCode::Tab | KeyCode::Right => focus(state, 1),
        KeyCode::BackTab | KeyCode::Left => focus(state, -1),
        code => {
            select(state, code);
            None
        }
    }
}

fn say(state: &mut State, text: &str) -> Option<Command> {
    state.shown.message = Some(text.to_owned());
    None
}

fn view(state: &mut State, view: View) -> Option<Command> {
    state.shown.views.push(view);
    None
}

fn focus(state: &mut State, by: isize) -> Option<Command> {
    if state.shown.views.is_empty() {
        let has_findings = state.history.shown().is_some_and(|frame| !frame.findings.is_empty());
        let mut to = state.shown.main.focus.next(by);
        if to == Pane::Findings && !has_findings {
            to = to.next(by);
        }
        state.shown.main.focus = to;
    }
    None
}

/// The process that an action is about: that of the view, or the selected one.
pub(crate) fn chosen(state: &mut State) -> Option<Process> {
    let State { options, history, shown } = state;
    let lists = Lists::of(options, history, &shown.filter)?;
    let picked = |rows: Vec<&Process>, table: &mut Processes| {
        let at = table.cursor.at(&rows, |row, key| is_of(row, key));
        rows.get(at).map(|process| (*process).clone())
    };
    match shown.views.last_mut() {
        Some(View::Process(key, _)) => {
            lists.frame().processes.iter().find(|process| is_of(process, key)).cloned()
        }
        Some(View::Device(disk, table)) => picked(lists.of_disk(disk, table.order), table),
        Some(View::Workload(workload, table)) => {
            picked(lists.of_workload(workload, table.order), table)
        }
        Some(View::Help(_) | View::Page(..)) => None,
        None => {
            let main = &mut shown.main;
            match main.focus {
                Pane::Waits => picked(lists.waits(main.waits.order), &mut main.waits),
                Pane::Writes => picked(lists.writes(main.writes.order), &mut main.writes),
                Pane::Disks => {
                    let disk = picked_disk(lists, main)?;
                    lists.of_disk(&disk, Field::Mark).first().map(|process| (*process).clone())
                }
                Pane::Findings => None,
            }
        }
    }
}

fn picked_disk(lists: Lists<'_>, main: &mut Main) -> Option<String> {
    let rows = lists.disks(main.disk_order);
    let at = main.disk.at(&rows, |row, name| row.disk.name == *name);
    rows.get(at).map(|row| row.disk.name.clone())
}

/// Opens what is selected.
fn open(state: &mut State) -> Option<Command> {
    let is_main = state.shown.views.is_empty();
    match (is_main, state.shown.main.focus) {
        (true, Pane::Disks) => {
            let State { options, history, shown } = state;
            let lists = Lists::of(options, history, &shown.filter)?;
            let disk = picked_disk(lists, &mut shown.main)?;
            shown.views.push(View::Device(disk, Processes::default()));
            None
        }
        (true, Pane::Findings) => explain(state),
        _ => {
            if matches!(state.shown.views.last(), Some(View::Process(..))) {
                return None;
            }
            let process = chosen(state)?;
            state.shown.views.push(View::Process(key_of(&process), 0));
            ask_files(state, process.pid)
        }
    }
}

/// Asks for the page of the selected finding, or of the first if none was chosen.
fn explain(state: &mut State) -> Option<Command> {
    let findings = &state.history.shown()?.findings;
    let rows: Vec<usize> = (0..findings.len()).collect();
    let at = state.shown.main.finding.at(&rows, |row, key| row == key);
    match findings.get(at) {
        Some(finding) => Some(Command::Explain(finding.id.clone())),
        None => say(state, "nothing is found"),
    }
}

/// Asks for the files of a process. Number 0 stands for many.
fn ask_files(state: &mut State, pid: u32) -> Option<Command> {
    state.shown.files = None;
    (pid != 0 && state.options.mode == Mode::Live).then_some(Command::Files(pid))
}

/// Orders the table that has the keys by its next field.
fn order(state: &mut State) {
    let next = |fields: &[Field], order: &mut Field| {
        let at = fields.iter().position(|field| field == order).unwrap_or(0);
        *order = fields.get(at + 1).or(fields.first()).copied().unwrap_or(Field::Mark);
    };
    let main = &mut state.shown.main;
    match state.shown.views.last_mut() {
        Some(View::Device(_, table) | View::Workload(_, table)) => next(&USES, &mut table.order),
        Some(View::Process(..) | View::Help(_) | View::Page(..)) => {}
        None => match main.focus {
            Pane::Waits => next(&WAITS, &mut main.waits.order),
            Pane::Writes => next(&WRITES, &mut main.writes.order),
            Pane::Disks => {
                let at = DISK_FIELDS.iter().position(|field| *field == main.disk_order);
                let first = DISK_FIELDS[0];
                main.disk_order =
                    at.and_then(|at| DISK_FIELDS.get(at + 1)).copied().unwrap_or(first);
            }
            Pane::Findings => {}
        },
    }
}

/// Moves the selection.
fn select(state: &mut State, code: KeyCode) {
    let State { options, history, shown } = state;
    let Some(lists) = Lists::of(options, history, &shown.filter) else { return };
    let moved = |cursor: &mut Cursor<ProcessKey>, rows: &[&Process]| {
        cursor.at(rows, |row, key| is_of(row, key));
        cursor.key(code, rows, |row| key_of(row));
    };
    match shown.views.last_mut() {
        Some(View::Device(disk, table)) => {
            moved(&mut table.cursor, &lists.of_disk(disk, table.order));
        }
        Some(View::Workload(workload, table)) => {
            moved(&mut table.cursor, &lists.of_workload(workload, table.order));
        }
        Some(View::Process(_, first)) => scrolled(first, code),
        Some(View::Help(_) | View::Page(..)) => {}
        None => {
            let main = &mut shown.main;
            match main.focus {
                Pane::Waits => moved(&mut main.waits.cursor, &lists.waits(main.waits.order)),
                Pane::Writes => moved(&mut main.writes.cursor, &lists.writes(main.writes.order)),
                Pane::Disks => {
                    let rows = lists.disks(main.disk_order);
                    main.disk.at(&rows, |row, name| row.disk.name == *name);
                    main.disk.key(code, &rows, |row| row.disk.name.clone());
                }
                Pane::Findings => {
                    let findings: Vec<usize> = (0..lists.frame().findings.len()).collect();
                    main.finding.at(&findings, |row, key| row == key);
                    main.finding.key(code, &findings, |row| *row);
                }
            }
        }
    }
}

/// Scrolls the text on top.
pub(crate) fn scroll(state: &mut State, code: KeyCode) {
    if let Some(View::Help(first) | View::Page(_, _, first)) = state.shown.views.last_mut() {
        scrolled(first, code);
    }
}

/// Lines of a page; the view keeps the last line on the screen.
const PAGE: usize = 20;

fn scrolled(first: &mut usize, code: KeyCode) {
    *first = match code {
        KeyCode::Up => first.saturating_sub(1),
        KeyCode::Down => first.saturating_add(1),
        KeyCode::PageUp => first.saturating_sub(PAGE),
        KeyCode::PageDown | KeyCode::Char(' ') => first.saturating_add(PAGE),
        KeyCode::Home => 0,
        KeyCode::End => usize::MAX,
        _ => *first,
    };
}
