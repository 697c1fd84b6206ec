//! Socket options of Linux whose value is one number.
#![allow(unsafe_code, reason = "no safe wrapper has these socket options")]

use core::ptr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option.
pub(super) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option's value is a c_int, which lives on this stack until the call has returned.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What an option is set to, if that is a number from 0 up.
pub(super) fn get(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> Option<usize> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: value and length live on this stack until the call has returned; the length is the value's.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, ptr::from_mut(&mut value).cast(), &mut len)
    };
    if outcome == 0 { usize::try_from(value).ok() } else { None }
}
