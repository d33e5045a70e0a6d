//! `rdma/providers/fi_prov.h` and `rdma/providers/fi_log.h`: what a provider is, and what libfabric does for it.

use core::ffi::{c_char, c_int, c_void};

use super::fabric::{fi_context, fi_fabric_attr, fi_info, fi_param_type, fid_fabric};

/// What the entry point `fi_prov_ini` returns.
#[repr(C)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    /// libfabric's own.
    pub context: fi_context,
    pub name: *const c_char,
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    pub fabric: Option<
        unsafe extern "C" fn(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void) -> c_int,
    >,
    pub cleanup: Option<unsafe extern "C" fn()>,
}

/// `fi_param_define`. The help is a format of `printf`.
pub type fi_param_define_t = unsafe extern "C" fn(
    provider: *const fi_provider,
    param_name: *const c_char,
    r#type: fi_param_type,
    help_string_fmt: *const c_char,
    ...
) -> c_int;
/// `fi_param_get`.
pub type fi_param_get_t =
    unsafe extern "C" fn(provider: *mut fi_provider, param_name: *const c_char, value: *mut c_void) -> c_int;

pub type fi_log_level = c_int;
pub const FI_LOG_WARN: fi_log_level = 0;
pub const FI_LOG_INFO: fi_log_level = 2;

pub type fi_log_subsys = c_int;
pub const FI_LOG_CORE: fi_log_subsys = 0;
pub const FI_LOG_FABRIC: fi_log_subsys = 1;
pub const FI_LOG_DOMAIN: fi_log_subsys = 2;
pub const FI_LOG_EP_CTRL: fi_log_subsys = 3;

/// `fi_log_enabled`.
pub type fi_log_enabled_t =
    unsafe extern "C" fn(prov: *const fi_provider, level: fi_log_level, subsys: fi_log_subsys) -> c_int;
/// `fi_log`. The text is a format of `printf`.
pub type fi_log_t = unsafe extern "C" fn(
    prov: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    func: *const c_char,
    line: c_int,
    fmt: *const c_char,
    ...
);
