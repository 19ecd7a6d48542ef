//! Help: what keys do, and what columns and marks mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::page;
use crate::state::Options;
use crate::theme::Look;

/// The text, before marks are filled in. Lines fit 80 columns.
const TEXT: &str = "\
The first lines say who waits for which disk, how long, and because of what.
{victim} is a victim: a process that waits longer than the disk alone explains, or
  than the guard's goal.
{flood} is a flood: a process that dirties page cache faster than the disk drains.

KEYS
  Tab, Shift-Tab  the next table, the one before; also Right and Left
  arrows, PgUp, PgDn, Home, End
                  select a row; Home follows the first row again
  Enter           open the disk or process, or explain the finding
  e               explain the selected finding, else the first
  d  u            open the disk, or the unit, pod or container, of a process
  f               ask again for the files of an open process
  Esc             back; in the main view: no filter
  S               order the table by its next column ({sort} marks it)
  /               show only names with a part: of process, unit, pod, disk
  space           stop and go on; nothing is lost meanwhile
  t  T  b         recording: next frame, frame before, jump to a time
  Ctrl-L  Ctrl-Z  draw anew; suspend
  ?  q            this help; end

ACTIONS show a command of floodwall's, and run it after y alone. They need
root. Each ends by itself after ten minutes, or with the command that it names.
  p  pause the guard, or have a paused one go on
  l  limit the unit of the selected flood, else of the heaviest
  r  raise the priority of the selected victim, else of the slowest (bfq)

MACHINE
  dirty           page cache not yet written
  hard limit      above it the kernel stops every writer
  I/O pressure    share of the window in which some process waited for I/O

DISKS
  DRAINS AT       bytes a second written while it has a backlog; with ~ an
                  estimate of the kernel's: no backlog was seen yet
  BACKLOG         page cache that waits to be written to it
  DRAINED IN      how long that takes: an fsync of everything would take it now
  QUEUE           requests under way
  SLOWEST         the slowest wait of a process for it in this window
  PRESSURE        what victims wait for as a share of the guard's goal
  GUARD           free, watch, pace, protect, probe or recover
  BUSY            share of the window in which a request was under way
  WRITES READS    bytes a second that it completed
  MOUNTED AT      where its filesystems are
  DRAIN, 2 min    the drain time of two minutes; without root WRITES

WHO WAITS
  IN  DISK        pod and container, else container, else unit; and the disk
  FOR             the call that took longest, all together, or read
  /s              such calls that ended, a second
  p50 p99         half of them were shorter; 99 % were, of 100 or more
  SLOWEST         the slowest wait of any call, or the one under way
  NOW             calls and reads under way

WHO FLOODS
  DIRTIES         bytes of page cache dirtied, a second
  THROTTLED       sleep because too much is dirty, of the window
  SHARE           estimated share of the disk's backlog, also after its end

REQUESTS of a disk
  SIZE            mean bytes of a request
  QUEUE           time in the kernel's queue
  DEVICE          time in the device

A value that was not seen is {unknown}. 'floodwall explain WORD' explains a word.
";

/// Draws it. `first` is the first line that is shown.
pub(super) fn draw(options: &Options, first: &mut usize, buffer: &mut Buffer, area: Rect) {
    let look = options.look;
    page::draw(look, "HELP  q or Esc goes back", &text(look), first, buffer, area);
}

fn text(look: Look) -> String {
    TEXT.replace("{victim}", look.victim_mark())
        .replace("{flood}", look.flood_mark())
        .replace("{sort}", look.sort_mark())
        .replace("{unknown}", look.unknown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::{DISK_FIELDS, Line};
    use crate::fields::{Field, USES, WAITS, WRITES};
    use crate::theme::Colours;

    #[test]
    fn every_column_is_explained_and_lines_fit_a_narrow_screen() {
        let disks = DISK_FIELDS.iter().map(|field| field.title(Line::DrainTime));
        // The column of names is called as its table.
        let fields = USES.iter().chain(&WAITS).chain(&WRITES).filter(|field| **field != Field::Who);
        let fields = fields.map(|field| field.title());
        let text = text(Look { colours: Colours::None, ascii: false });
        let words: Vec<&str> =
            text.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
        for title in disks.chain(fields).flat_map(str::split_whitespace) {
            let title = title.trim_end_matches(',');
            assert!(words.contains(&title), "{title}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }
}
