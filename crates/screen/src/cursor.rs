//! The selected row of a table, and what a key does to it.
//!
//! A selection follows its process or disk when the order changes, so that an action meets the one
//! that the user has chosen. Until a row is chosen, the first one is selected.

use ratatui::crossterm::event::KeyCode;

/// The selected row of a table whose rows are known by a `K`.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<K> {
    /// The chosen row; absent while none is.
    key: Option<K>,
    /// Where it was last.
    row: usize,
    /// The first row on the screen.
    top: usize,
    /// Rows on the screen when they were last drawn.
    page: usize,
}

impl<K> Default for Cursor<K> {
    fn default() -> Self {
        Self { key: None, row: 0, top: 0, page: 1 }
    }
}

impl<K> Cursor<K> {
    /// Where the selected row is among these. A row that is gone leaves the place to its successor.
    pub(crate) fn at<T>(&mut self, rows: &[T], is_it: impl Fn(&T, &K) -> bool) -> usize {
        self.row = match &self.key {
            None => 0,
            Some(key) => rows.iter().position(|row| is_it(row, key)).unwrap_or(self.row),
        };
        self.row = self.row.min(rows.len().saturating_sub(1));
        self.row
    }

    /// The rows that a table of this height shows, so that the selected one is among them.
    pub(crate) fn shown(&mut self, rows: usize, height: usize) -> std::ops::Range<usize> {
        self.page = height.max(1);
        self.row = self.row.min(rows.saturating_sub(1));
        self.top = self.top.min(rows.saturating_sub(height));
        if self.row < self.top {
            self.top = self.row;
        } else if self.row >= self.top.saturating_add(self.page) {
            self.top = self.row + 1 - self.page;
        }
        self.top..self.top.saturating_add(height).min(rows)
    }

    /// Moves the selection as a key says, from where [`Cursor::at`] has found it. Tells whether the
    /// key was one of those that do.
    pub(crate) fn key<T>(&mut self, key: KeyCode, rows: &[T], name: impl Fn(&T) -> K) -> bool {
        let last = rows.len().saturating_sub(1);
        let to = match key {
            KeyCode::Up => self.row.saturating_sub(1),
            KeyCode::Down => self.row.saturating_add(1),
            KeyCode::PageUp => self.row.saturating_sub(self.page),
            KeyCode::PageDown => self.row.saturating_add(self.page),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return false,
        };
        self.row = to.min(last);
        self.key = rows.get(self.row).map(name);
        if key == KeyCode::Home {
            self.key = None;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_follows_its_row_and_the_first_follows_the_order() {
        let mut cursor = Cursor::default();
        let is_it = |row: &i32, key: &i32| row == key;
        assert_eq!(cursor.at(&[1, 2, 3], is_it), 0);
        assert_eq!(cursor.at(&[2, 1, 3], is_it), 0, "none is chosen");
        assert!(cursor.key(KeyCode::Down, &[1, 2, 3], |row| *row));
        assert_eq!(cursor.at(&[2, 1, 3], is_it), 0, "2 is chosen");
        assert_eq!(cursor.at(&[1, 3, 2], is_it), 2);
        assert_eq!(cursor.at(&[1, 3], is_it), 1, "2 is gone");
        assert_eq!(cursor.at(&[] as &[i32], is_it), 0);
        assert!(!cursor.key(KeyCode::Enter, &[1], |row| *row));
    }

    #[test]
    fn the_selected_row_is_on_the_screen() {
        let mut cursor = Cursor::default();
        let rows: Vec<usize> = (0..100).collect();
        let is_it = |row: &usize, key: &usize| row == key;
        assert_eq!(cursor.shown(100, 10), 0..10);
        cursor.key(KeyCode::End, &rows, |row| *row);
        assert_eq!((cursor.at(&rows, is_it), cursor.shown(100, 10)), (99, 90..100));
        cursor.key(KeyCode::PageUp, &rows, |row| *row);
        assert_eq!(cursor.shown(100, 10), 89..99);
        assert_eq!(cursor.shown(5, 10), 0..5);
        cursor.key(KeyCode::Home, &rows, |row| *row);
        assert_eq!((cursor.at(&rows, is_it), cursor.shown(100, 0).len()), (0, 0));
    }
}
