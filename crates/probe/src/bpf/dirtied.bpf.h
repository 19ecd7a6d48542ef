// SPDX-License-Identifier: (MIT OR Apache-2.0 OR GPL-2.0-only)
//
// Page cache dirtied, by process and device: a part of probe.bpf.c.
//
// writeback_dirty_folio is passed where the kernel adds to a task's write_bytes
// (mm/page-writeback.c, folio_account_dirtied), with interrupts off:
//
//   same process and device as before on this processor  -> recents[epoch]
//   another                                               -> what recents[epoch] had goes to
//                                                            dirtied[process, device],
//                                                            without room to unplaced[0, device]
//
// A writer dirties many pages in a row, and the search in a hash table costs as much as all the
// rest. A kernel thread counts as any process: a loop device's worker dirties pages of the disk
// below, besides those that the process at the top dirtied for the loop device.

// Flags of a page's first word, which is typed since 6.18; the order of a folio lies in the flags
// of its second page since 6.6. The names are the kernel's (include/linux/mm_types.h).
struct memdesc_flags { u64 f; } CORE;
struct folio { struct memdesc_flags flags; u64 _flags_1; } CORE;
struct folio___before_6_18 { u64 flags; } CORE;
struct folio___before_6_6 { u8 _folio_order; } CORE;
// Its number changes with the kernel's version.
enum pageflags { PG_head = 6 };

// What this machine's pages have, in bytes; the loader fills it in.
volatile const u64 page_bytes = 4096;

#define S_IFMT 0170000
#define S_IFBLK 0060000
// Pages of this filesystem are written back, and counted (include/linux/backing-dev.h).
#define BDI_CAP_WRITEBACK 1

#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define ENUM_VALUE(type, name) __builtin_preserve_enum_value(*(type *)name, 1)

struct dirtied_key { u32 epoch; u32 pid; u32 dev; };
struct dirtied { u64 bytes; u8 comm[16]; };
// exec_id changes when the process starts another program, and has another name then.
struct recent { u32 pid; u32 dev; u64 exec_id; u64 bytes; };

struct {
	int (*type)[1];
	int (*max_entries)[4096];
	int (*map_flags)[1];
	struct dirtied_key *key;
	struct dirtied *value;
} dirtied SEC(".maps");

// Of processes without room in `dirtied`, all together.
struct {
	int (*type)[1];
	int (*max_entries)[256];
	int (*map_flags)[1];
	struct dirtied_key *key;
	struct dirtied *value;
} unplaced SEC(".maps");

struct {
	int (*type)[6]; // BPF_MAP_TYPE_PERCPU_ARRAY
	int (*max_entries)[2];
	u32 *key;
	struct recent *value;
} recents SEC(".maps");

static const struct dirtied no_dirtied = {};

INLINE u64 bytes_of(struct folio *folio)
{
	struct folio___before_6_18 *untyped = (void *)folio;
	struct folio___before_6_6 *with_order = (void *)folio;
	u64 flags, order;
	if (FIELD_EXISTS(untyped->flags))
		flags = untyped->flags;
	else
		flags = folio->flags.f;
	if (!(flags >> ENUM_VALUE(enum pageflags, PG_head) & 1))
		return page_bytes;
	if (FIELD_EXISTS(with_order->_folio_order))
		order = with_order->_folio_order;
	else
		order = folio->_flags_1;
	return page_bytes << (order & 31);
}

// Adds what a processor's last writer has, to where it belongs.
INLINE void settle(struct control *c, u32 epoch, struct recent *r)
{
	struct dirtied_key key = { epoch, r->pid, r->dev };
	if (!r->bytes)
		return;
	struct dirtied *d = map_lookup(&dirtied, &key);
	if (!d) {
		__sync_fetch_and_add(&c->folded, 1);
		key.pid = 0;
		map_update(&unplaced, &key, &no_dirtied, 1 /* BPF_NOEXIST */);
		d = map_lookup(&unplaced, &key);
	}
	if (d)
		__sync_fetch_and_add(&d->bytes, r->bytes);
}

// Makes room for a process, and notes its name. A worker of the kernel has a longer one in /proc.
INLINE void begin(u32 epoch, struct task_struct *task, u32 pid, u32 dev)
{
	struct dirtied_key key = { epoch, pid, dev };
	struct dirtied *d = map_lookup(&dirtied, &key);
	if (!d) {
		map_update(&dirtied, &key, &no_dirtied, 1);
		d = map_lookup(&dirtied, &key);
	}
	if (d && !(task->flags & PF_KTHREAD))
		name_of(task, d->comm);
}

SEC("tp_btf/writeback_dirty_folio")
int folio_dirtied(u64 *ctx)
{
	struct folio *folio = (struct folio *)ctx[0];
	struct address_space *mapping = (struct address_space *)ctx[1];
	struct control *c = controls();
	if (!c || !mapping)
		return 0;
	// A device file's pages belong to the device, not to the filesystem that the file is on.
	struct inode *inode = mapping->host;
	int is_device = (inode->i_mode & S_IFMT) == S_IFBLK;
	u32 dev = is_device ? inode->i_rdev : inode->i_sb->s_dev;
	struct task_struct *task = current_task_typed();
	// Read once: the window may end meanwhile.
	u32 pid = task->tgid, epoch = *(volatile u32 *)&c->epoch;
	struct recent *r = map_lookup(&recents, &epoch);
	if (!r)
		return 0;
	if (r->pid != pid || r->dev != dev || r->exec_id != task->self_exec_id) {
		if (!is_device && !(inode->i_sb->s_bdi->capabilities & BDI_CAP_WRITEBACK))
			return 0;
		settle(c, epoch, r);
		begin(epoch, task, pid, dev);
		r->pid = pid;
		r->dev = dev;
		r->exec_id = task->self_exec_id;
		r->bytes = 0;
	}
	r->bytes += bytes_of(folio);
	return 0;
}
