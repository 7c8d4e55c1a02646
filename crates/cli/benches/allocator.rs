//! The allocator of the binary, which also counts what each thread asks it for. Tools that count from the
//! outside, such as valgrind's dhat, only know the allocator of the system.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use tikv_jemallocator::Jemalloc;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) struct CountingJemalloc;

/// How often this thread has asked for memory so far.
pub(crate) fn thread_allocations() -> u64 {
    ALLOCATIONS.get()
}

fn note_allocation() {
    ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(1));
}

#[expect(unsafe_code, reason = "allocators have no safe interface")]
// SAFETY: every call is passed on as it is to an allocator that keeps the contract. Counting allocates
// nothing and cannot panic: the counter is initialized at compile time and is never dropped.
unsafe impl GlobalAlloc for CountingJemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocation();
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocation();
        // SAFETY: as above.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note_allocation();
        // SAFETY: as above.
        unsafe { Jemalloc.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Jemalloc.dealloc(pointer, layout) }
    }
}
