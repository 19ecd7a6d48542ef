// SPDX-License-Identifier: (MIT OR Apache-2.0 OR GPL-2.0-only)
//
// Counts in the kernel who waits how long. scripts/bpf-object compiles it into probe.bpf.o, which
// is kept beside it; mod.rs loads that object and reads the maps.
//
//   sys_enter_*, sys_exit_* of fsync and its kin       a call     -> uses[process, device, kind]
//   the same of write and its kin, attached on demand  a call to an O_SYNC or O_DIRECT file of a
//                                                      process in `watched`  -> uses
//   block_io_start, block_rq_issue, block_rq_complete  a request  -> devices[device, class];
//                                                      a read     -> uses
//   writeback_dirty_folio                              dirtied page cache  -> dirtied.bpf.h
//
// Classic and raw tracepoints only: some kernels refuse programs on functions (fentry), or are
// built without kprobes.
//
// Types are declared with the few fields that are read. The loader takes their places from the
// running kernel (CO-RE). Times are nanoseconds of CLOCK_MONOTONIC. Everything that grows has a
// limit: beyond it processes are counted together (process 0), and operations under way are not
// seen.
//
// One object serves all little-endian machines: what differs between them is in `o_direct`.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define CORE __attribute__((preserve_access_index))

// Helpers by their numbers (include/uapi/linux/bpf.h).
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static u64 (*const pid_tgid)(void) = (void *)14;
static u64 (*const current_task)(void) = (void *)35;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
// Its fields can be read as they are.
static struct task_struct *(*const current_task_typed)(void) = (void *)158;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct backing_dev_info { u32 capabilities; } CORE;
struct super_block { u32 s_dev; struct backing_dev_info *s_bdi; } CORE;
struct inode { u16 i_mode; u32 i_rdev; struct super_block *i_sb; } CORE;
struct address_space { struct inode *host; } CORE;
struct file { struct inode *f_inode; u32 f_flags; } CORE;
struct fdtable { u32 max_fds; struct file **fd; } CORE;
struct files_struct { struct fdtable *fdt; } CORE;
struct task_struct {
	u32 flags;
	u32 tgid;
	u64 self_exec_id;
	struct task_struct *group_leader;
	char comm[16];
	struct files_struct *files;
} CORE;
struct gendisk { int major; int first_minor; } CORE;
struct request_queue { struct gendisk *disk; } CORE;
struct request { struct request_queue *q; u32 cmd_flags; u32 __data_len; u64 start_time_ns; } CORE;

// include/linux/blk_types.h; unchanged since 4.10.
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define REQ_SYNC (1u << 11)

// The numbers of event.rs, Call::ALL; then reads.
enum kind { FSYNC, FDATASYNC, SYNC_FILE_RANGE, MSYNC, SYNCFS, SYNC, SYNC_WRITE, DIRECT_WRITE, READ };
// The numbers of event.rs, Class::ALL.
enum class { CLASS_READ, CLASS_SYNC_WRITE, CLASS_ASYNC_WRITE, CLASS_FLUSH, CLASS_OTHER };

#define O_DSYNC 010000
// O_DIRECT of this machine, which the loader fills in (include/uapi/asm-generic/fcntl.h,
// arch/arm64/include/uapi/asm/fcntl.h).
volatile const u32 o_direct = 040000;
#define RANGE_WAITS (1 | 4)
#define MS_SYNC 4
#define PF_KTHREAD 0x00200000

// Log-linear: 64 buckets of 64 ns, then 32 an octave (3 %); layout.rs has the same.
#define BUCKETS 1056

struct histogram {
	u64 sum_ns;
	u64 max_ns;
	u32 buckets[BUCKETS];
};

struct use_key { u32 epoch; u32 pid; u32 dev; u32 kind; };
struct use { u64 bytes; u8 comm[16]; struct histogram took; };
struct device_key { u32 epoch; u32 dev; u32 class; };
struct device { u64 bytes; struct histogram queue; struct histogram device; };
struct pending { u64 since_ns; u32 dev; u32 kind; };
struct outstanding { u64 issued_ns; u64 queued_ns; u32 pid; u32 dev; };
// epoch: which of two sets is counted into. folded: operations that had no room.
struct control { u32 epoch; u32 flags; u64 folded; };
// Flags: operations that begin are not counted; those under way are followed to their end.
#define CLOSED 1
// Only reads among the requests are of interest.
#define SPARING 2

struct {
	int (*type)[1];
	int (*max_entries)[4096];
	int (*map_flags)[1]; // BPF_F_NO_PREALLOC
	struct use_key *key;
	struct use *value;
} uses SEC(".maps");

struct {
	int (*type)[1];
	int (*max_entries)[1024];
	int (*map_flags)[1];
	struct device_key *key;
	struct device *value;
} devices SEC(".maps");

struct {
	int (*type)[1];
	int (*max_entries)[8192];
	u64 *key;
	struct pending *value;
} calls SEC(".maps");

struct {
	int (*type)[1];
	int (*max_entries)[16384];
	u64 *key;
	struct outstanding *value;
} requests SEC(".maps");

// Processes that have files open with O_SYNC or O_DIRECT.
struct {
	int (*type)[1];
	int (*max_entries)[1024];
	u32 *key;
	u32 *value;
} watched SEC(".maps");

// Processes that sent synchronous writes outside of a call that is timed, since the last look.
struct {
	int (*type)[1];
	int (*max_entries)[64];
	u32 *key;
	u32 *value;
} suspects SEC(".maps");

struct {
	int (*type)[2]; // BPF_MAP_TYPE_ARRAY
	int (*max_entries)[1];
	u32 *key;
	struct control *value;
} control SEC(".maps");

static const struct use no_use = {};
static const struct device no_device = {};

INLINE u32 bucket_of(u64 ns)
{
	u64 v = ns >> 6;
	if (v < 64)
		return v;
	u64 rest = v;
	u32 log = 0;
	if (rest >> 32) { rest >>= 32; log += 32; }
	if (rest >> 16) { rest >>= 16; log += 16; }
	if (rest >> 8) { rest >>= 8; log += 8; }
	if (rest >> 4) { rest >>= 4; log += 4; }
	if (rest >> 2) { rest >>= 2; log += 2; }
	log += rest >> 1;
	u32 shift = log - 5;
	u32 bucket = 64 + (shift - 1) * 32 + (u32)(v >> shift) - 32;
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

INLINE void count(struct histogram *h, u64 ns)
{
	u32 bucket = bucket_of(ns);
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&h->buckets[bucket], 1);
	__sync_fetch_and_add(&h->sum_ns, ns);
	// Two at once may leave the smaller; the bucket has both.
	if (ns > h->max_ns)
		h->max_ns = ns;
}

INLINE struct control *controls(void)
{
	u32 zero = 0;
	return map_lookup(&control, &zero);
}

INLINE int has(u32 flags)
{
	struct control *c = controls();
	return c && c->flags & flags;
}

#define READ_FIELD(to, pointer, field) \
	read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(pointer)->field))

// A process's name, not the thread's.
INLINE void name_of(struct task_struct *task, u8 *comm)
{
	struct task_struct *leader = 0;
	READ_FIELD(leader, task, group_leader);
	read_kernel(comm, 16, __builtin_preserve_access_index(&leader->comm));
}

INLINE void count_use(u32 pid, u32 dev, u32 kind, u64 ns, u64 bytes)
{
	struct control *c = controls();
	if (!c)
		return;
	struct use_key key = { c->epoch, pid, dev, kind };
	struct use *use = map_lookup(&uses, &key);
	if (!use) {
		if (map_update(&uses, &key, &no_use, 1 /* BPF_NOEXIST */) == 0) {
			use = map_lookup(&uses, &key);
			if (use && kind != READ)
				name_of((struct task_struct *)current_task(), use->comm);
		} else {
			use = map_lookup(&uses, &key);
		}
		if (!use) {
			__sync_fetch_and_add(&c->folded, 1);
			key.pid = 0;
			use = map_lookup(&uses, &key);
			if (!use) {
				map_update(&uses, &key, &no_use, 1);
				use = map_lookup(&uses, &key);
			}
			if (!use)
				return;
		}
	}
	count(&use->took, ns);
	if (bytes)
		__sync_fetch_and_add(&use->bytes, bytes);
}

INLINE void enter(u32 dev, u32 kind)
{
	u64 id = pid_tgid();
	struct pending p = { now_ns(), dev, kind };
	map_update(&calls, &id, &p, 0);
}

// What is open in the current process under a number.
INLINE struct file *file_of(u32 fd)
{
	struct task_struct *task = (struct task_struct *)current_task();
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	struct file **open = 0, *file = 0;
	u32 most = 0;
	READ_FIELD(files, task, files);
	READ_FIELD(table, files, fdt);
	READ_FIELD(most, table, max_fds);
	READ_FIELD(open, table, fd);
	if (fd < most)
		read_kernel(&file, sizeof(file), open + fd);
	return file;
}

INLINE u32 device_of_file(struct file *file)
{
	struct inode *inode = 0;
	struct super_block *sb = 0;
	u32 dev = 0;
	READ_FIELD(inode, file, f_inode);
	READ_FIELD(sb, inode, i_sb);
	READ_FIELD(dev, sb, s_dev);
	return dev;
}

INLINE void leave(u32 kind, long result)
{
	u64 id = pid_tgid();
	struct pending *p = map_lookup(&calls, &id);
	if (!p || p->kind != kind)
		return;
	u64 took = now_ns() - p->since_ns;
	u32 dev = p->dev;
	map_delete(&calls, &id);
	if (result >= 0)
		count_use(id >> 32, dev, kind, took, 0);
}

// A system call's record begins with 8 bytes that all tracepoints have, and its number. Its
// arguments, or its result, are words from byte 16 on (kernel/trace/trace_syscalls.c, struct
// syscall_tp_t).
#define ARGUMENT(ctx, n) ((ctx)[2 + (n)])

// A program on a classic tracepoint that returns 0 takes the record from other tracers' perf events
// (perf_call_bpf_enter).
#define GO_ON 1

#define CALL(name, kind, device, when)                      \
	SEC("tp/syscalls/sys_enter_" #name)                 \
	int enter_##name(u64 *ctx)                          \
	{                                                   \
		if (!has(CLOSED) && (when))                 \
			enter(device, kind);                \
		return GO_ON;                               \
	}                                                   \
	SEC("tp/syscalls/sys_exit_" #name)                  \
	int exit_##name(u64 *ctx)                           \
	{                                                   \
		leave(kind, (long)ARGUMENT(ctx, 0));        \
		return GO_ON;                               \
	}

#define FILE_DEVICE device_of_file(file_of(ARGUMENT(ctx, 0)))

CALL(fsync, FSYNC, FILE_DEVICE, 1)
CALL(fdatasync, FDATASYNC, FILE_DEVICE, 1)
CALL(sync_file_range, SYNC_FILE_RANGE, FILE_DEVICE, ARGUMENT(ctx, 3) & RANGE_WAITS)
CALL(syncfs, SYNCFS, FILE_DEVICE, 1)
CALL(msync, MSYNC, 0, ARGUMENT(ctx, 2) & MS_SYNC)
CALL(sync, SYNC, 0, 1)

INLINE int write_enter(u64 *ctx)
{
	u32 pid = pid_tgid() >> 32;
	if (has(CLOSED) || !map_lookup(&watched, &pid))
		return GO_ON;
	struct file *file = file_of(ARGUMENT(ctx, 0));
	u32 flags = 0;
	READ_FIELD(flags, file, f_flags);
	if (flags & (O_DSYNC | o_direct))
		enter(device_of_file(file), flags & O_DSYNC ? SYNC_WRITE : DIRECT_WRITE);
	return GO_ON;
}

INLINE int write_exit(u64 *ctx)
{
	u32 pid = pid_tgid() >> 32;
	if (!map_lookup(&watched, &pid))
		return GO_ON;
	leave(SYNC_WRITE, (long)ARGUMENT(ctx, 0));
	leave(DIRECT_WRITE, (long)ARGUMENT(ctx, 0));
	return GO_ON;
}

#define WRITE(name)                                                                       \
	SEC("tp/syscalls/sys_enter_" #name) int enter_##name(u64 *ctx) { return write_enter(ctx); } \
	SEC("tp/syscalls/sys_exit_" #name) int exit_##name(u64 *ctx) { return write_exit(ctx); }

WRITE(write)
WRITE(pwrite64)
WRITE(writev)
WRITE(pwritev)
WRITE(pwritev2)

INLINE u32 device_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;
	return ((u32)disk->major << 20) | (u32)disk->first_minor;
}

#include "dirtied.bpf.h"

SEC("tp_btf/block_io_start")
int request_made(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u32 flags = rq->cmd_flags;
	u64 id = pid_tgid();
	if (has(CLOSED))
		return 0;
	if ((flags & REQ_OP_MASK) == REQ_OP_READ) {
		u64 key = (u64)rq;
		struct outstanding o = { 0, now_ns(), id >> 32, device_of(rq) };
		map_update(&requests, &key, &o, 0);
	} else if ((flags & REQ_OP_MASK) == REQ_OP_WRITE && flags & REQ_SYNC) {
		struct pending *p = map_lookup(&calls, &id);
		if (!p) {
			u32 pid = id >> 32, one = 1, flags = 0;
			struct task_struct *task = (struct task_struct *)current_task();
			READ_FIELD(flags, task, flags);
			if (!(flags & PF_KTHREAD) && !map_lookup(&watched, &pid))
				map_update(&suspects, &pid, &one, 0);
		} else if (!p->dev) {
			// msync and sync name no file.
			p->dev = device_of(rq);
		}
	}
	return 0;
}

SEC("tp_btf/block_rq_merge")
int request_merged(u64 *ctx)
{
	u64 key = ctx[0];
	map_delete(&requests, &key);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int request_issued(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 key = (u64)rq, now = now_ns();
	int is_read = (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_READ;
	if (!is_read && has(SPARING))
		return 0;
	if (is_read) {
		struct outstanding *known = map_lookup(&requests, &key);
		if (known) {
			known->issued_ns = now;
			return 0;
		}
	}
	if (has(CLOSED))
		return 0;
	struct outstanding o = { now, rq->start_time_ns, 0, device_of(rq) };
	map_update(&requests, &key, &o, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int request_done(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 key = (u64)rq;
	u32 bytes = rq->__data_len;
	if ((rq->cmd_flags & REQ_OP_MASK) != REQ_OP_READ && has(SPARING))
		return 0;
	// The rest of a request that ends in parts comes later.
	if ((u32)ctx[2] < bytes)
		return 0;
	struct outstanding *o = map_lookup(&requests, &key);
	if (!o)
		return 0;
	u64 now = now_ns(), issued = o->issued_ns, queued = o->queued_ns;
	u32 pid = o->pid, dev = o->dev, flags = rq->cmd_flags, op = flags & REQ_OP_MASK;
	map_delete(&requests, &key);
	struct control *c = controls();
	if (!issued || !c)
		return 0;
	// An empty write asks for a flush, which is a request of its own.
	if (op == REQ_OP_WRITE && bytes == 0)
		return 0;
	u32 class = op == REQ_OP_READ ? CLASS_READ
		: op == REQ_OP_FLUSH ? CLASS_FLUSH
		: op != REQ_OP_WRITE ? CLASS_OTHER
		: flags & REQ_SYNC ? CLASS_SYNC_WRITE : CLASS_ASYNC_WRITE;
	struct device_key dkey = { c->epoch, dev, class };
	struct device *device = map_lookup(&devices, &dkey);
	if (!device) {
		map_update(&devices, &dkey, &no_device, 1);
		device = map_lookup(&devices, &dkey);
		if (!device)
			return 0;
	}
	__sync_fetch_and_add(&device->bytes, bytes);
	count(&device->device, now - issued);
	if (queued && queued <= issued)
		count(&device->queue, issued - queued);
	if (op == REQ_OP_READ && pid)
		count_use(pid, dev, READ, now - (queued ? queued : issued), bytes);
	return 0;
}
