//! Hub ids to local files.
