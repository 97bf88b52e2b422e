//! A limit on memory that counts every byte: without a sanitizer, the fuzzer's own looks at the process once a second only.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// No input of a few kilobytes needs so much at once.
const MOST: usize = 1 << 30;

static USED: AtomicUsize = AtomicUsize::new(0);

struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fn take(bytes: usize) {
    if USED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > MOST {
        USED.store(0, Ordering::Relaxed);
        eprintln!("more than {MOST} bytes of memory: {bytes} more are wanted");
        std::process::abort();
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }
}
