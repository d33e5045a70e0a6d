//! Devices: which there are, opening them, and what they say of themselves.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr;
use std::sync::{Arc, Mutex};

use libc::{size_t, ssize_t};

use super::objects::{ContextObject, DeviceObject};
use super::tables;
use crate::abi::*;
use crate::border::{forget, lock, note, number, pointer, status};
use crate::device::{Presentation, Shown, at_index, device_attributes, gid, guid, port_attributes, shown};
use crate::errno::Errno;
use crate::events::AsyncEvents;
use crate::per_process::PerProcess;
use crate::{log, process};

/// The devices that there have been.
static DEVICES: PerProcess<Mutex<Vec<&'static DeviceObject>>> = PerProcess::new();

fn known(shown: Shown) -> &'static DeviceObject {
    let mut devices = lock(DEVICES.get());
    let same = |device: &&&DeviceObject| {
        device.shown.name == shown.name && device.shown.interface.name == shown.interface.name
    };
    if let Some(device) = devices.iter().find(same) {
        return device;
    }
    let number = devices.len();
    let (node_type, transport_type) = Presentation::chosen().node_and_transport();
    let mut c = ibv_device {
        _ops: [ptr::null_mut(); 2],
        node_type,
        transport_type,
        name: [0; IBV_SYSFS_NAME_MAX],
        dev_name: [0; IBV_SYSFS_NAME_MAX],
        dev_path: [0; IBV_SYSFS_PATH_MAX],
        ibdev_path: [0; IBV_SYSFS_PATH_MAX],
    };
    write(&mut c.name, &shown.name);
    write(&mut c.dev_name, &format!("uverbs{number}"));
    write(&mut c.dev_path, &format!("/sys/class/infiniband_verbs/uverbs{number}"));
    write(&mut c.ibdev_path, &format!("/sys/class/infiniband/{}", shown.name));
    let object = DeviceObject { c: UnsafeCell::new(c), _nothing: [0; 64], shown, number };
    let device: &'static DeviceObject = Box::leak(Box::new(object));
    devices.push(device);
    device
}

/// Writes a text, with a zero behind it.
fn write(to: &mut [c_char], text: &str) {
    let room = to.len() - 1;
    for (to, from) in to.iter_mut().zip(text.bytes().take(room)) {
        *to = from as c_char;
    }
}

/// # Safety
/// `count` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    pointer(|| {
        let devices: Vec<_> = shown().into_iter().map(known).collect();
        // SAFETY: Takes numbers; the memory is zero.
        let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) }.cast::<*mut ibv_device>();
        if list.is_null() {
            return Err(Errno::NO_MEMORY);
        }
        for (at, device) in devices.iter().enumerate() {
            // SAFETY: Inside the list, which has one place more than there are devices.
            unsafe { list.add(at).write(device.c.get()) };
        }
        if !count.is_null() {
            // SAFETY: The caller's promise.
            unsafe { count.write(devices.len() as c_int) };
        }
        Ok(list)
    })
}

/// # Safety
/// NULL, or a list of [`weft_ibv_get_device_list`] that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: The caller's promise.
    unsafe { libc::free(list.cast()) };
}

/// # Safety
/// NULL, or a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return ptr::null();
    }
    // SAFETY: The caller's promise.
    unsafe { (&raw const (*device).name).cast() }
}

/// # Safety
/// NULL, or a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    let mut found = 0;
    status(|| {
        // SAFETY: The caller's promise.
        found = guid(&unsafe { DeviceObject::of(device) }?.shown.interface);
        Ok(())
    });
    found
}

/// # Safety
/// NULL, or a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: The caller's promise.
    number(|| Ok(unsafe { DeviceObject::of(device) }?.number as c_int))
}

/// # Safety
/// NULL, or a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: The caller's promise. Devices are never freed.
        let device: &'static DeviceObject = unsafe { DeviceObject::of(device) }?;
        let process = process::get()?;
        let events = Arc::new(AsyncEvents::new()?);
        let interface = device.interface();
        let largest_mtu = port_attributes(&interface).active_mtu;
        let _verbs = UnsafeCell::new(tables::verbs_context(device.c.get(), events.descriptor()));
        let addresses = interface.addresses;
        let object = ContextObject { _verbs, process, events, device, addresses, largest_mtu };
        log::info(format_args!("{} is open", device.shown.name));
        let opened = ContextObject::to_c(Box::into_raw(Box::new(object)));
        note(opened.addr(), ContextObject::KIND);
        Ok(opened)
    })
}

/// # Safety
/// NULL, or an open device, which is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_close_device(context: *mut ibv_context) -> c_int {
    status(|| {
        if !forget(context.addr(), ContextObject::KIND) {
            return Err(Errno::INVALID);
        }
        // SAFETY: It came from `Box::into_raw` when the device was opened, and is C's no more.
        drop(unsafe { Box::from_raw(ContextObject::of_c(context)) });
        Ok(())
    })
}

/// # Safety
/// `context` is NULL or an open device; `to` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_device(context: *mut ibv_context, to: *mut ibv_device_attr) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let context = unsafe { ContextObject::of(context) }?;
        if to.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so it can be written.
        unsafe { to.write(device_attributes(&context.device.shown.interface)) };
        Ok(())
    })
}

/// As many bytes as the caller has.
///
/// # Safety
/// `to` is NULL, or `length` bytes from there can be written.
unsafe fn write_part<T>(to: *mut T, length: usize, value: &T) -> Result<(), Errno> {
    if to.is_null() {
        return Err(Errno::INVALID);
    }
    let known = length.min(size_of::<T>());
    // SAFETY: The caller's promise; `value` has at least as many bytes.
    unsafe {
        ptr::write_bytes(to.cast::<u8>(), 0, length);
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to.cast::<u8>(), known);
    }
    Ok(())
}

pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const c_void,
    to: *mut ibv_device_attr_ex,
    length: size_t,
) -> c_int {
    status(|| {
        // SAFETY: C's callers pass an open device, and NULL or a structure that begins with its mask.
        let (context, mask) =
            unsafe { (ContextObject::of(context)?, input.cast::<u32>().as_ref().copied().unwrap_or(0)) };
        if mask != 0 || length < offset_of!(ibv_device_attr_ex, comp_mask) {
            return Err(Errno::INVALID);
        }
        let orig_attr = device_attributes(&context.device.shown.interface);
        let all = ibv_device_attr_ex { orig_attr, comp_mask: 0, _unused: [0; 40], phys_port_cnt_ex: 1 };
        // SAFETY: C's callers say how many bytes there are.
        unsafe { write_part(to, length, &all) }
    })
}

fn port(context: &ContextObject, number: u8) -> Result<ibv_port_attr, Errno> {
    if number == 1 { Ok(port_attributes(&context.device.interface())) } else { Err(Errno::INVALID) }
}

pub(super) unsafe extern "C" fn query_port_sized(
    context: *mut ibv_context,
    port_number: u8,
    to: *mut ibv_port_attr,
    length: size_t,
) -> c_int {
    status(|| {
        // SAFETY: C's callers pass an open device, and say how many bytes there are.
        unsafe { write_part(to, length, &port(ContextObject::of(context)?, port_number)?) }
    })
}

/// By its symbol it fills the structure of old, which ends before `link_layer` has followers.
///
/// # Safety
/// `context` is NULL or an open device; `to` is NULL or has 48 bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_port(
    context: *mut ibv_context,
    port_number: u8,
    to: *mut ibv_port_attr,
) -> c_int {
    const OLD: usize = 48;
    // SAFETY: The caller's promise.
    unsafe { query_port_sized(context, port_number, to, OLD) }
}

/// The entry of the table of GIDs.
fn entry(context: &ContextObject, port_number: u32, index: usize) -> Result<ibv_gid_entry, Errno> {
    let address = at_index(&context.addresses, index).filter(|_| port_number == 1).ok_or(Errno(libc::ENODATA))?;
    let name = std::ffi::CString::new(context.device.shown.interface.name.as_str()).map_err(|_| Errno::INVALID)?;
    // SAFETY: A C string.
    let interface = unsafe { libc::if_nametoindex(name.as_ptr()) };
    Ok(ibv_gid_entry {
        gid: gid(*address),
        gid_index: index as u32,
        port_num: port_number,
        gid_type: Presentation::chosen().gid_type(),
        ndev_ifindex: interface,
    })
}

/// # Safety
/// `context` is NULL or an open device; `to` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_gid(
    context: *mut ibv_context,
    port_number: u8,
    index: c_int,
    to: *mut ibv_gid,
) -> c_int {
    number(|| {
        // SAFETY: The caller's promise.
        let context = unsafe { ContextObject::of(context) }?;
        let index = usize::try_from(index).map_err(|_| Errno::INVALID)?;
        let found = entry(context, port_number.into(), index)?;
        if to.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so it can be written.
        unsafe { to.write_unaligned(found.gid) };
        Ok(0)
    })
}

/// Of programs that were built against old headers: 1 is RoCE v2 there.
///
/// # Safety
/// `context` is NULL or an open device; `to` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_gid_type(
    context: *mut ibv_context,
    port_number: u8,
    index: u32,
    to: *mut c_int,
) -> c_int {
    number(|| {
        // SAFETY: The caller's promise.
        entry(unsafe { ContextObject::of(context) }?, port_number.into(), index as usize)?;
        if to.is_null() {
            return Err(Errno::INVALID);
        }
        let is_roce = Presentation::chosen() == Presentation::Roce;
        // SAFETY: Not NULL, so it can be written.
        unsafe { to.write(c_int::from(is_roce)) };
        Ok(0)
    })
}

/// # Safety
/// `context` is NULL or an open device; `to` is NULL or has `length` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_gid_ex(
    context: *mut ibv_context,
    port_number: u32,
    index: u32,
    to: *mut ibv_gid_entry,
    flags: u32,
    length: size_t,
) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: The caller's promise.
        unsafe { write_part(to, length, &entry(ContextObject::of(context)?, port_number, index as usize)?) }
    })
}

/// # Safety
/// `context` is NULL or an open device; `to` is NULL or has `most` entries of `length` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_gid_table(
    context: *mut ibv_context,
    to: *mut ibv_gid_entry,
    most: size_t,
    flags: u32,
    length: size_t,
) -> ssize_t {
    let mut count = 0;
    let result = status(|| {
        // SAFETY: The caller's promise.
        let context = unsafe { ContextObject::of(context) }?;
        if flags != 0 || context.addresses.len() > most {
            return Err(Errno::INVALID);
        }
        for index in 0..context.addresses.len() {
            let place = to.cast::<u8>().wrapping_add(index * length).cast();
            // SAFETY: The caller's promise, for there are at most `most`.
            unsafe { write_part(place, length, &entry(context, 1, index)?) }?;
            count += 1;
        }
        Ok(())
    });
    if result == 0 { count } else { -(result as ssize_t) }
}

/// # Safety
/// `context` is NULL or an open device; `to` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_pkey(
    context: *mut ibv_context,
    port_number: u8,
    index: c_int,
    to: *mut u16,
) -> c_int {
    number(|| {
        if context.is_null() || to.is_null() || port_number != 1 || index != 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so it can be written.
        unsafe { to.write(0xffff) };
        Ok(0)
    })
}

/// # Safety
/// `context` is NULL or an open device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_get_pkey_index(context: *mut ibv_context, port_number: u8, pkey: u16) -> c_int {
    number(|| {
        let is_ours = !context.is_null() && port_number == 1 && pkey == 0xffff;
        if is_ours { Ok(0) } else { Err(Errno::INVALID) }
    })
}
