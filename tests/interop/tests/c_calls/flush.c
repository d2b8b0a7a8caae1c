/* FLUSH and ATOMIC WRITE: the device's capability bits, and the memory that may be flushed to persistence. Arguments:
 * device, GID index. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Exits with the line number and the failed condition. */
#define MUST(condition)                                                                          \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

enum { PAGE = 4096 };

/* IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT; rdma-core 44's headers lack the names. */
enum { FLUSH_GLOBAL = 1 << 8, FLUSH_PERSISTENT = 1 << 9 };

/* IBV_DEVICE_FLUSH_GLOBAL, IBV_DEVICE_FLUSH_PERSISTENT and IBV_DEVICE_ATOMIC_WRITE of device_cap_flags_ex; the headers
 * lack these names, too. */
static const uint64_t CAP_FLUSH_GLOBAL = 1ull << 38, CAP_FLUSH_PERSISTENT = 1ull << 39, CAP_ATOMIC_WRITE = 1ull << 40;

static void capabilities(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr;

	MUST(ibv_query_device_ex(context, NULL, &attr) == 0);
	MUST(attr.device_cap_flags_ex & CAP_FLUSH_GLOBAL);
	MUST(attr.device_cap_flags_ex & CAP_FLUSH_PERSISTENT);
	MUST(attr.device_cap_flags_ex & CAP_ATOMIC_WRITE);
	MUST((uint32_t)attr.device_cap_flags_ex == attr.orig_attr.device_cap_flags);
}

static void *map(int flags, int fd)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	MUST(at != MAP_FAILED);
	return at;
}

/* Registers memory for FLUSH; returns 0 or the error. */
static int registers(struct ibv_pd *pd, void *at, int flush)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | flush);

	if (!mr)
		return errno;
	MUST(ibv_dereg_mr(mr) == 0);
	return 0;
}

/* `path`: where a file may be made. */
static void memory(struct ibv_pd *pd, const char *path)
{
	int file = open(path, O_CREAT | O_RDWR, 0600), in_memory = memfd_create("memory", 0);
	void *anonymous = map(MAP_PRIVATE | MAP_ANONYMOUS, -1), *shared = map(MAP_SHARED | MAP_ANONYMOUS, -1);
	struct statfs fs;

	MUST(file >= 0 && ftruncate(file, PAGE) == 0 && in_memory >= 0 && ftruncate(in_memory, PAGE) == 0);
	MUST(registers(pd, anonymous, FLUSH_PERSISTENT) == EINVAL);
	MUST(registers(pd, anonymous, FLUSH_GLOBAL | FLUSH_PERSISTENT) == EINVAL);
	MUST(registers(pd, shared, FLUSH_PERSISTENT) == EINVAL);
	MUST(registers(pd, map(MAP_SHARED, in_memory), FLUSH_PERSISTENT) == EINVAL);
	MUST(registers(pd, map(MAP_PRIVATE, file), FLUSH_PERSISTENT) == EINVAL);

	/* All memory may be flushed to global visibility, and a stored file to persistence. */
	MUST(registers(pd, anonymous, FLUSH_GLOBAL) == 0);
	MUST(fstatfs(file, &fs) == 0);
	if (fs.f_type != TMPFS_MAGIC)
		MUST(registers(pd, map(MAP_SHARED, file), FLUSH_GLOBAL | FLUSH_PERSISTENT) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	struct ibv_pd *pd;
	char path[4096];

	MUST(argc == 3 && list && snprintf(path, sizeof path, "%s.data", argv[0]) < (int)sizeof path);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	MUST(context && (pd = ibv_alloc_pd(context)));
	capabilities(context);
	memory(pd, path);
	MUST(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	puts("all as it must be");
	return 0;
}
