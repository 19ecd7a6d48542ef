//! The tool's other options, and what to do without them.

/// Names that have one remedy.
const OTHERS: [(&str, &str); 19] = [
    ("wait_for", "stonewall, which waits for all jobs before it"),
    (
        "lockfile unique_filename write_hint lockmem mem iomem hugepage-size nice gtod_cpu \
         clocksource openfiles create_fsync log_entries ignore_error exit_what exitall_on_error \
         error_dump profile stats max_latency alloc-size-limit",
        "leave it out",
    ),
    ("opendir", "filename=A:B:C"),
    ("ba blockalign bsrange blocksize_range bssplit bs_unaligned blocksize_unaligned", "bs=SIZE"),
    ("bs_is_seq_rand", "bs=READ,WRITE"),
    (
        "iodepth_batch iodepth_batch_submit iodepth_batch_complete iodepth_batch_complete_min \
         iodepth_batch_complete_max iodepth_low serialize_overlap hipri registerfiles fixedbufs \
         sqthread_poll sqthread_poll_cpu nonvectored userspace_reap uncached",
        "iodepth=N alone",
    ),
    ("fill_device fill_fs file_append", "size=SIZE"),
    ("offset_align", "offset=SIZE"),
    (
        "percentage_random zonemode zonesize zonerange zoneskip zonecapacity \
         read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold \
         zone_reset_frequency",
        "rw=randread and so on",
    ),
    ("write_barrier sync_file_range", "fsync=N or fdatasync=N"),
    ("atomic", "direct=1"),
    (
        "verify_only verify_interval verify_offset verify_pattern verify_fatal verify_dump \
         verify_async verify_async_cpus verify_backlog verify_backlog_batch experimental_verify \
         verify_state_load verify_state_save trim_percentage trim_verify_zero trim_backlog \
         trim_backlog_batch pre_read",
        "leave it out; data is not checked",
    ),
    (
        "write_iolog read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale \
         replay_align replay_time_scale replay_skip merge_blktrace_file \
         merge_blktrace_scalars merge_blktrace_iters flow flow_id flow_sleep \
         thinktime thinktime_spin thinktime_blocks thinktime_blocks_type thinktime_iotime \
         rate_ignore_thinktime",
        "rate_iops=N",
    ),
    ("exec_prerun exec_postrun", "a line of the script before or after it"),
    ("ioscheduler", "floodwall apply --set scheduler=NAME"),
    (
        "prio prioclass cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy \
         cgroup cgroup_weight cgroup_nodelete uid gid",
        "systemd-run, ionice or taskset before it",
    ),
    (
        "rate_min ratemin rate_cycle ratecycle rate_iops_min latency_target latency_window \
         latency_percentile latency_run steadystate ss steadystate_duration ss_dur \
         steadystate_ramp_time ss_ramp unlink_each_loop continue_on_error create_only",
        "runtime=TIME",
    ),
    ("allow_mounted_write", "floodwall compat --destructive fio"),
    (
        "log_hist_msec log_hist_coarseness write_hist_log log_max_value log_offset log_prio \
         log_compression log_compression_cpus log_store_compressed log_unix_epoch \
         log_alternate_epoch log_alternate_epoch_clock_id block_error_percentiles \
         unified_rw_reporting buffer_pattern buffer_compress_chunk dedupe_percentage dedupe_mode \
         dedupe_working_set_percentage dedupe_global",
        "leave it out; --output-format=json has each direction's percentiles",
    ),
];

/// Advice for an option of the tool that is not supported.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    let has = |names: &str| names.split(' ').any(|other| other == name);
    OTHERS.iter().find(|(names, _)| has(names)).map(|(_, nearest)| *nearest)
}
