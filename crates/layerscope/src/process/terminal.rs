//! The terminal that standard error may be.

use std::io::IsTerminal;

/// Whether there is one on which a line can be drawn again.
pub fn can_redraw() -> bool {
    std::io::stderr().is_terminal() && understands_escapes()
}

#[cfg(not(windows))]
fn understands_escapes() -> bool {
    true
}

/// A console of Windows must be asked to.
#[cfg(windows)]
fn understands_escapes() -> bool {
    anstyle_query::windows::enable_ansi_colors().unwrap_or(false)
}

#[cfg(unix)]
/// How many characters a line of the terminal has; None where there is none.
pub fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the system fills a structure of this type, or fails.
    let asked = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) };
    (asked == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// How many characters a line of the terminal has: not known there.
#[cfg(not(unix))]
pub fn columns() -> Option<usize> {
    None
}
