// RDMA over AF_RDS. Runs on Linux's RDS and on Weft's alike.
//
//   rdma target ADDRESS PORT           offers memory and does as it is told, until it is told to end
//   rdma initiate ADDRESS PEER PORT    READs and WRITEs the target's memory, with all that can go wrong
//   rdma threads ADDRESS PEER PORT     two threads READ and WRITE at the same time
//   rdma calls ADDRESS                 errors of calls
//   rdma memory ADDRESS                offers memory of Weft's own kinds: neighbours of other threads' data, before fork

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rds.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RDS_FAMILY 21
#define MEMORY (3 << 20)

#define MUST(what) do { if (!(what)) { \
	printf("line %d: %s: errno %d (%s)\n", __LINE__, #what, errno, strerror(errno)); fflush(stdout); _exit(1); } } while (0)
#define FAILS(call, number) do { errno = 0; int result = (int)(call); if (result != -1 || errno != (number)) { \
	printf("line %d: %s: %d, errno %d (%s), not %s\n", __LINE__, #call, result, errno, strerror(errno), \
		strerror(number)); _exit(1); } } while (0)

// What the initiator tells the target.
struct order {
	char verb;
	int offset, size, number;
	uint64_t flags;
};

struct answer {
	int result;
	uint64_t cookie;
};

// What a socket has received.
struct inbox {
	int answered, notified;
	struct answer answer;
	uint64_t cookie;
	struct rds_rdma_notify notification;
};

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	MUST(inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	return sin;
}

static int bound(const char *address, int port)
{
	int fd = socket(RDS_FAMILY, SOCK_SEQPACKET, 0);
	struct sockaddr_in sin = at(address, port);
	MUST(fd >= 0);
	MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	return fd;
}

static unsigned char pattern(int number, int i)
{
	return (unsigned char)((i + 1) * 2654435761u >> 13) ^ (unsigned char)(number * 37);
}

static void fill(unsigned char *to, int number, int size)
{
	for (int i = 0; i < size; i++)
		to[i] = pattern(number, i);
}

static int is_filled(const unsigned char *from, int number, int size)
{
	for (int i = 0; i < size; i++)
		if (from[i] != pattern(number, i))
			return 0;
	return 1;
}

// Sends with an optional control message.
static ssize_t send_with(int fd, struct sockaddr_in *to, const void *data, size_t size, int type, const void *control,
	size_t length)
{
	char room[256] __attribute__((aligned(8))) = { 0 };
	struct iovec piece = { (void *)data, size };
	struct msghdr message = { .msg_name = to, .msg_namelen = sizeof(*to), .msg_iov = &piece, .msg_iovlen = size ? 1 : 0 };
	if (control) {
		message.msg_control = room;
		message.msg_controllen = CMSG_SPACE(length);
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_RDS;
		header->cmsg_type = type;
		header->cmsg_len = CMSG_LEN(length);
		memcpy(CMSG_DATA(header), control, length);
	}
	return sendmsg(fd, &message, 0);
}

// Receives one message or notification; returns its bytes.
static ssize_t receive(int fd, struct sockaddr_in *from, void *data, size_t size, struct inbox *inbox)
{
	char room[512] __attribute__((aligned(8)));
	struct iovec piece = { data, size };
	struct msghdr message;
	ssize_t got;
	do {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		MUST(poll(&pfd, 1, 60000) == 1);
		message = (struct msghdr){ .msg_name = from, .msg_namelen = sizeof(*from), .msg_iov = &piece, .msg_iovlen = 1,
			.msg_control = room, .msg_controllen = sizeof(room) };
		got = recvmsg(fd, &message, MSG_DONTWAIT);
	} while (got < 0 && errno == EAGAIN);
	MUST(got >= 0);
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
		MUST(header->cmsg_level == SOL_RDS);
		if (header->cmsg_type == RDS_CMSG_RDMA_DEST) {
			memcpy(&inbox->cookie, CMSG_DATA(header), sizeof(inbox->cookie));
		} else if (header->cmsg_type == RDS_CMSG_RDMA_STATUS) {
			MUST(!inbox->notified && got == 0);
			memcpy(&inbox->notification, CMSG_DATA(header), sizeof(inbox->notification));
			inbox->notified = 1;
		}
	}
	return got;
}

static int offer(int fd, void *memory, size_t size, uint64_t flags, uint64_t *cookie)
{
	struct rds_get_mr_args args = {
		.vec = { (uintptr_t)memory, size }, .cookie_addr = (uintptr_t)cookie, .flags = flags };
	return setsockopt(fd, SOL_RDS, RDS_GET_MR, &args, sizeof(args));
}

static int offer_to(int fd, const struct sockaddr_in *peer, void *memory, size_t size, uint64_t flags, uint64_t *cookie)
{
	struct rds_get_mr_for_dest_args args = {
		.vec = { (uintptr_t)memory, size }, .cookie_addr = (uintptr_t)cookie, .flags = flags };
	memcpy(&args.dest_addr, peer, sizeof(*peer));
	return setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &args, sizeof(args));
}

static int withdraw(int fd, uint64_t cookie)
{
	// Without the flag Linux leaves the key valid for a while.
	struct rds_free_mr_args args = { .cookie = cookie, .flags = RDS_RDMA_INVALIDATE };
	return setsockopt(fd, SOL_RDS, RDS_FREE_MR, &args, sizeof(args));
}

static void target(const char *address, int port)
{
	int fd = bound(address, port);
	unsigned char *memory = malloc(MEMORY);
	uint64_t cookie = 0;
	MUST(memory);
	memset(memory, 0, MEMORY);
	printf("serving\n");
	fflush(stdout);
	for (;;) {
		struct sockaddr_in from;
		struct order order;
		struct inbox inbox = { 0 };
		struct answer answer = { 0 };
		ssize_t got = receive(fd, &from, &order, sizeof(order), &inbox);
		if (got != sizeof(order)) // a message that only carries an operation
			continue;
		unsigned char *place = memory + order.offset;
		int type = 0;
		const void *control = NULL;
		size_t length = 0;
		struct rds_get_mr_args map = { .vec = { (uintptr_t)place, order.size },
			.cookie_addr = (uintptr_t)&cookie, .flags = order.flags };
		switch (order.verb) {
		case 'G':
			answer.result = offer(fd, place, order.size, order.flags, &cookie) ? errno : 0;
			break;
		case 'P':
			answer.result = offer_to(fd, &from, place, order.size, order.flags, &cookie) ? errno : 0;
			break;
		case 'F':
			answer.result = withdraw(fd, cookie) ? errno : 0;
			break;
		case 'M':
			type = RDS_CMSG_RDMA_MAP, control = &map, length = sizeof(map);
			break;
		case 'D':
			type = RDS_CMSG_RDMA_DEST, control = &cookie, length = sizeof(cookie);
			break;
		case 'S':
			fill(place, order.number, order.size);
			break;
		case 'C':
			answer.result = !is_filled(place, order.number, order.size);
			break;
		}
		answer.cookie = cookie;
		MUST(send_with(fd, &from, &answer, sizeof(answer), type, control, length) == sizeof(answer));
		if (order.verb == 'Q')
			break;
	}
	// Linux forgets what a closed socket has not sent.
	sleep(2);
	printf("served\n");
}

struct peer {
	int fd;
	struct sockaddr_in to;
	struct inbox inbox;
	int tokens, offers;
	// The target offers memory along with messages alone.
	int needs_messages;
};

static void take(struct peer *peer)
{
	struct sockaddr_in from;
	struct answer answer;
	if (receive(peer->fd, &from, &answer, sizeof(answer), &peer->inbox) == sizeof(answer)) {
		peer->inbox.answer = answer;
		peer->inbox.answered = 1;
	}
}

static struct answer await(struct peer *peer)
{
	while (!peer->inbox.answered)
		take(peer);
	peer->inbox.answered = 0;
	return peer->inbox.answer;
}

static struct answer tell(struct peer *peer, char verb, int offset, int size, int number, uint64_t flags)
{
	struct order order = { verb, offset, size, number, flags };
	MUST(send_with(peer->fd, &peer->to, &order, sizeof(order), 0, NULL, 0) == sizeof(order));
	return await(peer);
}

// The target offers memory with its answer, which was copied before the cookie was known.
static uint64_t get_with_answer(struct peer *peer, int offset, int size, uint64_t flags)
{
	peer->inbox.cookie = 0;
	MUST(tell(peer, 'M', offset, size, 0, flags).result == 0);
	MUST(peer->inbox.cookie);
	return peer->inbox.cookie;
}

// Has the target offer memory, by each of the three ways in turn.
static uint64_t get(struct peer *peer, int offset, int size, uint64_t flags)
{
	char way = "GPM"[peer->offers++ % 3];
	if (way == 'M')
		return get_with_answer(peer, offset, size, flags);
	struct answer answer = tell(peer, way, offset, size, 0, flags);
	// Linux (rds_ib_reg_frmr) posts fast registrations to a connection's queue pair, and its socket options have no connection.
	if (answer.result == EOPNOTSUPP) {
		if (!peer->needs_messages++)
			printf("the target offers memory along with messages alone\n");
		return get_with_answer(peer, offset, size, flags);
	}
	if (answer.result)
		printf("offer '%c': %s\n", way, strerror(answer.result));
	MUST(answer.result == 0);
	return answer.cookie;
}

// Begins an operation that accompanies an order; returns its token.
static uint64_t begin(struct peer *peer, uint64_t cookie, uint64_t remote, struct iovec *local, int count, uint64_t flags,
	const struct order *order)
{
	struct rds_iovec vectors[8];
	uint64_t bytes = 0;
	for (int i = 0; i < count; i++) {
		vectors[i] = (struct rds_iovec){ (uintptr_t)local[i].iov_base, local[i].iov_len };
		bytes += local[i].iov_len;
	}
	struct rds_rdma_args args = { .cookie = cookie, .remote_vec = { remote, bytes }, .local_vec_addr = (uintptr_t)vectors,
		.nr_local = count, .flags = flags, .user_token = 0x123456789abc0000 + ++peer->tokens };
	ssize_t size = order ? sizeof(*order) : 0;
	MUST(send_with(peer->fd, &peer->to, order, size, RDS_CMSG_RDMA_ARGS, &args, sizeof(args)) == size);
	return args.user_token;
}

static int result(struct peer *peer, uint64_t token)
{
	while (!peer->inbox.notified)
		take(peer);
	peer->inbox.notified = 0;
	MUST(peer->inbox.notification.user_token == token);
	return peer->inbox.notification.status;
}

// WRITEs a pattern from memory in three unaligned pieces, with an order to check it.
static void write_and_check(struct peer *peer, uint64_t cookie, uint64_t remote, int offset, int size, int number)
{
	unsigned char *memory = malloc(size + 64);
	MUST(memory);
	fill(memory + 7, number, size);
	struct iovec local[3] = { { memory + 7, size / 3 }, { memory + 7 + size / 3, 1 },
		{ memory + 8 + size / 3, size - size / 3 - 1 } };
	struct order order = { 'C', offset, size, number, 0 };
	uint64_t token = begin(peer, cookie, remote, local, 3, RDS_RDMA_READWRITE | RDS_RDMA_NOTIFY_ME, &order);
	MUST(result(peer, token) == RDS_RDMA_SUCCESS);
	MUST(await(peer).result == 0);
	free(memory);
}

// READs a pattern into two unaligned pieces.
static void read_and_check(struct peer *peer, uint64_t cookie, int offset, int size, int number)
{
	unsigned char *memory = malloc(size + 64);
	MUST(memory);
	MUST(tell(peer, 'S', offset, size, number, 0).result == 0);
	memset(memory, 0xee, size + 64);
	struct iovec local[2] = { { memory + 5, 1 + size / 2 }, { memory + 6 + size / 2, size - size / 2 - 1 } };
	struct order order = { 'N', 0, 0, 0, 0 };
	uint64_t token = begin(peer, cookie, 0, local, 2, RDS_RDMA_FENCE | RDS_RDMA_NOTIFY_ME, &order);
	MUST(result(peer, token) == RDS_RDMA_SUCCESS);
	MUST(is_filled(memory + 5, number, size));
	MUST(memory[4] == 0xee && memory[5 + size] == 0xee);
	MUST(await(peer).result == 0);
	free(memory);
}

static void transfers(struct peer *peer)
{
	const int sizes[] = { 1 << 20, 65536, 70001, 4096, 3, 1000000 }, offsets[] = { 0, 4096, 123, 1, 4095, 777 };
	for (int i = 0; i < 6; i++) {
		uint64_t cookie = get(peer, offsets[i], sizes[i], RDS_RDMA_READWRITE);
		write_and_check(peer, cookie, 0, offsets[i], sizes[i], i);
		if (sizes[i] > 1000)
			write_and_check(peer, cookie, 100, offsets[i] + 100, 500, 50 + i);
		read_and_check(peer, cookie, offsets[i], sizes[i], 100 + i);
		MUST(tell(peer, 'F', 0, 0, 0, 0).result == 0);
		MUST(tell(peer, 'F', 0, 0, 0, 0).result == EINVAL);
	}
}

static void cookies(struct peer *peer)
{
	uint64_t cookie = get_with_answer(peer, 5000, 9000, RDS_RDMA_READWRITE);
	write_and_check(peer, cookie, 0, 5000, 9000, 7);
	MUST(tell(peer, 'F', 0, 0, 0, 0).result == 0);
	// The target names memory again.
	cookie = get(peer, 20000, 100, RDS_RDMA_READWRITE);
	peer->inbox.cookie = 0;
	MUST(tell(peer, 'D', 0, 0, 0, 0).result == 0 && peer->inbox.cookie == cookie);
	write_and_check(peer, peer->inbox.cookie, 0, 20000, 100, 8);
	MUST(tell(peer, 'F', 0, 0, 0, 0).result == 0);
	// Memory for one use ends with it.
	cookie = get(peer, 30000, 5000, RDS_RDMA_READWRITE | RDS_RDMA_USE_ONCE);
	write_and_check(peer, cookie, 0, 30000, 5000, 9);
	MUST(tell(peer, 'F', 0, 0, 0, 0).result == EINVAL);
}

static void silence(struct peer *peer)
{
	uint64_t cookie = get(peer, 40000, 5000, RDS_RDMA_READWRITE);
	unsigned char memory[5000];
	fill(memory, 11, 5000);
	struct iovec local = { memory, 5000 };
	uint64_t token =
		begin(peer, cookie, 0, &local, 1, RDS_RDMA_READWRITE | RDS_RDMA_SILENT | RDS_RDMA_NOTIFY_ME, NULL);
	// Linux (rds_ib_xmit_rdma) asks the adapter for no completion of an operation with a notification, because a message's
	// completion covers it. Behind a silent one there is none: the result waits for that of a later message.
	struct pollfd pfd = { .fd = peer->fd, .events = POLLIN };
	if (poll(&pfd, 1, 3000) == 1)
		printf("a silent operation reports its result by itself\n");
	else
		MUST(tell(peer, 'N', 0, 0, 0, 0).result == 0);
	MUST(result(peer, token) == RDS_RDMA_SUCCESS);
	MUST(tell(peer, 'C', 40000, 5000, 11, 0).result == 0);
	// Without notification, in front of an order.
	fill(memory, 12, 5000);
	struct order order = { 'C', 40000, 5000, 12, 0 };
	begin(peer, cookie, 0, &local, 1, RDS_RDMA_READWRITE, &order);
	MUST(await(peer).result == 0);
	MUST(!peer->inbox.notified);
	MUST(tell(peer, 'F', 0, 0, 0, 0).result == 0);
}

static void refusals(struct peer *peer)
{
	unsigned char memory[100];
	struct iovec local = { memory, 100 };
	memset(memory, 0xaa, 100);
	// A refusal ends the connection. Linux (rds_ib_conn_path_shutdown) makes no new one while there is memory that it registered
	// on the old one, which lasts longer than the programs' offers.
	if (peer->needs_messages)
		return;
	MUST(tell(peer, 'S', 50000, 20000, 13, 0).result == 0);
	for (int i = 0; i < 3; i++) {
		uint64_t cookie = get(peer, 54096, 100, RDS_RDMA_READWRITE), remote = 0;
		if (i == 0)
			cookie ^= 0x5a5a5a00; // another key
		else if (i == 1)
			remote = 8192; // beyond the memory's pages
		else
			MUST(tell(peer, 'F', 0, 0, 0, 0).result == 0);
		struct order order = { 'S', 50000, 20000, 14, 0 };
		uint64_t token =
			begin(peer, cookie, remote, &local, 1, RDS_RDMA_READWRITE | RDS_RDMA_NOTIFY_ME, &order);
		int status = result(peer, token);
		MUST(status == RDS_RDMA_REMOTE_ERROR || status == RDS_RDMA_OTHER_ERROR);
		// The connection is made again; the order of the failed operation is lost.
		MUST(tell(peer, 'C', 50000, 20000, 13, 0).result == 0);
		if (i < 2)
			MUST(tell(peer, 'F', 0, 0, 0, 0).result == 0);
	}
}

static struct peer peer_at(const char *address, const char *target, int port)
{
	struct peer peer = { .fd = bound(address, 0), .to = at(target, port) };
	// Linux offers memory on a connection alone.
	tell(&peer, 'N', 0, 0, 0, 0);
	return peer;
}

static void initiate(const char *address, const char *target, int port)
{
	struct peer peer = peer_at(address, target, port);
	const struct {
		const char *name;
		void (*run)(struct peer *);
	} parts[] = { { "transfers", transfers }, { "cookies", cookies }, { "silence", silence }, { "refusals", refusals },
		{ "transfers again", transfers } };
	for (int i = 0; i < 5; i++) {
		printf("%s\n", parts[i].name);
		fflush(stdout);
		parts[i].run(&peer);
	}
	tell(&peer, 'Q', 0, 0, 0, 0);
	printf("all as it must be\n");
}

static const char *own, *other;
static int port;

static void *thread(void *argument)
{
	int number = (int)(intptr_t)argument, offset = number * 100001;
	struct peer peer = peer_at(own, other, port);
	for (int i = 0; i < 30; i++) {
		uint64_t cookie = get(&peer, offset, 70000, RDS_RDMA_READWRITE | RDS_RDMA_USE_ONCE);
		write_and_check(&peer, cookie, 0, offset, 70000, i + number);
		cookie = get(&peer, offset, 70000, RDS_RDMA_READWRITE | RDS_RDMA_USE_ONCE);
		read_and_check(&peer, cookie, offset, 70000, i + number);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t ids[2];
	for (intptr_t i = 0; i < 2; i++)
		MUST(pthread_create(&ids[i], NULL, thread, (void *)i) == 0);
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(ids[i], NULL) == 0);
	struct peer peer = peer_at(own, other, port);
	tell(&peer, 'Q', 0, 0, 0, 0);
	printf("all as it must be\n");
}

static void calls(const char *address)
{
	static unsigned char memory[8192];
	uint64_t cookie = 0;
	int fd = socket(RDS_FAMILY, SOCK_SEQPACKET, 0);
	MUST(fd >= 0);
	FAILS(offer(fd, memory, 100, 0, &cookie), ENOTCONN);
	close(fd);
	fd = bound(address, 4200);
	struct sockaddr_in to = at(address, 4200);
	struct rds_get_mr_args args = { .vec = { (uintptr_t)memory, 100 } };
	FAILS(setsockopt(fd, SOL_RDS, RDS_GET_MR, &args, sizeof(args) - 1), EINVAL);
	FAILS(offer(fd, memory, 0, 0, &cookie), EINVAL);
	FAILS(offer(fd, (void *)-1, 100, 0, &cookie), EINVAL);
	FAILS(offer(fd, (void *)4096, 100, 0, &cookie), EFAULT);
	FAILS(withdraw(fd, 0x12345678), EINVAL);
	MUST(withdraw(fd, 0) == 0);
	struct rds_iovec vector = { (uintptr_t)memory, 100 };
	struct rds_rdma_args rdma = { .cookie = 1, .remote_vec = { 0, 100 }, .local_vec_addr = (uintptr_t)&vector, .nr_local = 1,
		.flags = RDS_RDMA_READWRITE };
	struct rds_rdma_args bad = rdma;
	FAILS(send_with(fd, &to, NULL, 0, 99, &bad, sizeof(bad)), EINVAL);
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_ARGS, &bad, sizeof(bad) - 8), EINVAL);
	bad.nr_local = 0;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_ARGS, &bad, sizeof(bad)), EINVAL);
	bad = rdma, bad.remote_vec.bytes = (1 << 20) + 1;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_ARGS, &bad, sizeof(bad)), EMSGSIZE);
	bad = rdma, bad.remote_vec.bytes = 99;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_ARGS, &bad, sizeof(bad)), EINVAL);
	bad = rdma, bad.local_vec_addr = 4096;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_ARGS, &bad, sizeof(bad)), EFAULT);
	vector.addr = 4096;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_ARGS, &rdma, sizeof(rdma)), EFAULT);
	cookie = 0x12345678;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_DEST, &cookie, sizeof(cookie)), EINVAL);
	args.vec.addr = 4096;
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_RDMA_MAP, &args, sizeof(args)), EFAULT);
	close(fd);
	printf("all as it must be\n");
}

static volatile int over;

static void *count(void *argument)
{
	volatile uint64_t *word = argument;
	uint64_t counted = 0;
	while (!over) {
		*word += 1;
		counted++;
	}
	return (void *)(uintptr_t)counted;
}

static void memory(const char *address)
{
	int fd = bound(address, 4300);
	uint64_t cookie;
	// A stack, a constant and a shared mapping stay where they are.
	unsigned char local[100];
	FAILS(offer(fd, local, 100, 0, &cookie), EOPNOTSUPP);
	FAILS(offer(fd, "constant", 8, 0, &cookie), EFAULT);
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED);
	FAILS(offer(fd, shared, 100, 0, &cookie), EOPNOTSUPP);
	struct rds_atomic_args atomic = { 0 };
	struct sockaddr_in to = at(address, 4300);
	FAILS(send_with(fd, &to, NULL, 0, RDS_CMSG_ATOMIC_FADD, &atomic, sizeof(atomic)), EOPNOTSUPP);
	// Another thread counts in the same page, for many pages; no count is lost.
	for (int i = 0; i < 50; i++) {
		unsigned char *pages = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(pages != MAP_FAILED);
		pthread_t id;
		void *counted;
		over = 0;
		MUST(pthread_create(&id, NULL, count, pages + 8) == 0);
		while (*(volatile uint64_t *)(pages + 8) < 100)
			;
		MUST(offer(fd, pages + 100, 7 * 4096, 0, &cookie) == 0);
		over = 1;
		MUST(pthread_join(id, &counted) == 0);
		MUST(*(uint64_t *)(pages + 8) == (uintptr_t)counted);
		MUST(i % 2 || withdraw(fd, cookie) == 0);
		MUST(munmap(pages, 8 * 4096) == 0);
	}
	// A child has its own copy, and the heap goes on.
	unsigned char *heap = malloc(300000);
	MUST(heap && offer(fd, heap, 300000, 0, &cookie) == 0);
	heap[1000] = 1;
	pid_t child = fork();
	if (child == 0) {
		MUST(heap[1000] == 1);
		memset(heap, 2, 300000);
		heap = realloc(heap, 3000000);
		MUST(heap && heap[299999] == 2);
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0) == child && status == 0);
	MUST(heap[1000] == 1);
	heap = realloc(heap, 5000000);
	MUST(heap && heap[1000] == 1);
	free(heap);
	MUST(withdraw(fd, cookie) == 0);
	close(fd);
	printf("all as it must be\n");
}

int main(int argc, char **argv)
{
	alarm(120);
	if (argc == 4 && !strcmp(argv[1], "target")) {
		target(argv[2], atoi(argv[3]));
	} else if (argc == 5 && !strcmp(argv[1], "initiate")) {
		initiate(argv[2], argv[3], atoi(argv[4]));
	} else if (argc == 5 && !strcmp(argv[1], "threads")) {
		own = argv[2], other = argv[3], port = atoi(argv[4]);
		threads();
	} else if (argc == 3 && !strcmp(argv[1], "calls")) {
		calls(argv[2]);
	} else if (argc == 3 && !strcmp(argv[1], "memory")) {
		memory(argv[2]);
	} else {
		return 2;
	}
	return 0;
}
