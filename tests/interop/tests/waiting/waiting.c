/* Threads that sleep in ibv_get_cq_event, and everything that may happen to them there: signals with and without
 * SA_RESTART, handlers that jump out, pthread_cancel, other threads on the same channel and on others, O_NONBLOCK,
 * fork. The peer's messages and one-sided operations continue throughout. Last: the number of sleeps that a message
 * costs. Arguments: device, GID index. */

#define _GNU_SOURCE
#include "../same_host/ends.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>

enum { QPS = 3, RECVS = 8, BUSY = 200, SLOW = 200, SLOW_US = 2000 };

/* An order to the peer. */
struct order {
	char kind; /* 's': SENDs, 'w': WRITEs, 'e': that is all */
	int qp;
	int count;
	int pause_us;
};

/* ---- the peer, which carries out orders ---- */

static void peer(int socket)
{
	struct ibv_mr *mr;
	struct told told[QPS];
	struct ibv_qp *qp[QPS];
	struct order order;

	region(4096, &mr);
	for (int i = 0; i < QPS; i++)
		qp[i] = meet(socket, mr, &told[i]);
	while (recv(socket, &order, sizeof order, MSG_WAITALL) == sizeof order && order.kind != 'e') {
		for (int i = 0; i < order.count; i++) {
			int which = order.qp < 0 ? i % QPS : order.qp;
			if (order.pause_us)
				wait_seconds(order.pause_us / 1e6);
			post(qp[which], order.kind == 's' ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, mr, 8, &told[which], 0);
			MUST(status() == IBV_WC_SUCCESS);
		}
		MUST(write(socket, "k", 1) == 1);
	}
}

/* ---- this process ---- */

static int wire;
static struct ibv_mr *memory;
static struct ibv_qp *qps[QPS];
static struct ibv_cq *cqs[QPS];
static struct ibv_comp_channel *channels[QPS];

static void ask(char kind, int qp, int count, int pause_us)
{
	struct order order = { kind, qp, count, pause_us };

	MUST(write(wire, &order, sizeof order) == sizeof order);
}

/* The peer is done: its last operation was acknowledged. */
static void was_done(void)
{
	struct pollfd fd = { .fd = wire, .events = POLLIN };
	char said;

	MUST(poll(&fd, 1, 10000) == 1);
	MUST(read(wire, &said, 1) == 1 && said == 'k');
}

static void post_recv(int qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory->addr + 64, .length = 64, .lkey = memory->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(ibv_post_recv(qps[qp], &wr, &bad) == 0);
}

static void arm(int qp)
{
	MUST(ibv_req_notify_cq(cqs[qp], 0) == 0);
}

/* Takes the completions of a queue. */
static int take(int qp)
{
	struct ibv_wc wc;
	int n, taken = 0;

	while ((n = ibv_poll_cq(cqs[qp], 1, &wc)) == 1) {
		MUST(wc.status == IBV_WC_SUCCESS);
		post_recv(qp);
		taken++;
	}
	MUST(n == 0);
	return taken;
}

/* Waits for an event; returns 0 or errno. */
static int event(int qp)
{
	struct ibv_cq *from = NULL;
	void *tag = NULL;

	if (ibv_get_cq_event(channels[qp], &from, &tag) != 0)
		return errno;
	MUST(from == cqs[qp] && tag == &cqs[qp]);
	ibv_ack_cq_events(from, 1);
	return 0;
}

/* Receives one message from the peer, waiting in the ordinary way. */
static void hear_one(int qp)
{
	arm(qp);
	ask('s', qp, 1, 20000);
	MUST(event(qp) == 0);
	MUST(take(qp) == 1);
	was_done();
}

/* A thread that soon sleeps in ibv_get_cq_event. */
struct waiter {
	int qp;
	int result;
	volatile int done;
	pthread_t thread;
};

static sigjmp_buf out;
static volatile int handled;

static void restarting(int signal)
{
	(void)signal;
	handled++;
}

static void jumping(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	MUST(sigaction(signal, &action, NULL) == 0);
}

static void *wait_once(void *arg)
{
	struct waiter *waiter = arg;

	waiter->result = event(waiter->qp);
	waiter->done = 1;
	return NULL;
}

static void start(struct waiter *waiter, int qp, void *(*body)(void *))
{
	*waiter = (struct waiter){ .qp = qp };
	MUST(pthread_create(&waiter->thread, NULL, body, waiter) == 0);
	wait_seconds(0.05);
	MUST(!waiter->done);
}

static void signals(void)
{
	struct waiter waiter;

	handle(SIGUSR1, restarting, SA_RESTART);
	handle(SIGUSR2, restarting, 0);
	arm(0);
	start(&waiter, 0, wait_once);
	MUST(pthread_kill(waiter.thread, SIGUSR1) == 0);
	wait_seconds(0.05);
	MUST(handled == 1 && !waiter.done);
	/* The program itself blocks this signal in the thread: nothing happens. */
	MUST(pthread_kill(waiter.thread, SIGURG) == 0);
	wait_seconds(0.05);
	MUST(!waiter.done);
	ask('s', 0, 1, 0);
	MUST(pthread_join(waiter.thread, NULL) == 0 && waiter.result == 0);
	MUST(take(0) == 1);
	was_done();

	start(&waiter, 0, wait_once);
	MUST(pthread_kill(waiter.thread, SIGUSR2) == 0);
	MUST(pthread_join(waiter.thread, NULL) == 0 && waiter.result == EINTR && handled == 2);
	hear_one(0);
}

static void *jump_out(void *arg)
{
	struct waiter *waiter = arg;
	sigset_t set;

	if (sigsetjmp(out, 1) == 0) {
		event(waiter->qp);
		return NULL;
	}
	/* The mask is unchanged, and the thread can wait again. */
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	MUST(!sigismember(&set, SIGUSR1));
	waiter->done = 1;
	waiter->result = event(waiter->qp);
	return NULL;
}

static void a_handler_jumps(void)
{
	struct waiter waiter;

	handle(SIGALRM, jumping, SA_RESTART);
	start(&waiter, 1, jump_out);
	MUST(pthread_kill(waiter.thread, SIGALRM) == 0);
	while (!waiter.done)
		wait_seconds(0.001);
	ask('w', 0, 50, 0);
	was_done();
	arm(1);
	ask('s', 1, 1, 20000);
	MUST(pthread_join(waiter.thread, NULL) == 0 && waiter.result == 0);
	MUST(take(1) == 1);
	was_done();
}

static void cancelled(void)
{
	struct waiter waiter;
	void *how;

	for (int round = 0; round < 10; round++) {
		arm(0);
		start(&waiter, 0, wait_once);
		if (round % 2)
			ask('w', 2, 100, 0);
		MUST(pthread_cancel(waiter.thread) == 0);
		MUST(pthread_join(waiter.thread, &how) == 0 && how == PTHREAD_CANCELED);
		if (round % 2)
			was_done();
		/* No thread calls verbs now. */
		ask('w', 1, 20, 0);
		was_done();
		hear_one(0);
	}
}

static volatile int heard[QPS];

static void *hear_many(void *arg)
{
	struct waiter *waiter = arg;

	for (int left = BUSY; left > 0;) {
		MUST(event(waiter->qp) == 0);
		arm(waiter->qp);
		int taken = take(waiter->qp);
		heard[waiter->qp] += taken;
		left -= taken;
	}
	return NULL;
}

static void many_channels(void)
{
	struct waiter waiters[QPS];

	for (int i = 0; i < QPS; i++) {
		arm(i);
		start(&waiters[i], i, hear_many);
	}
	ask('s', -1, BUSY * QPS, 0);
	for (int i = 0; i < QPS; i++)
		MUST(pthread_join(waiters[i].thread, NULL) == 0 && heard[i] == BUSY);
	was_done();
	/* Each is still armed and empty: an event from the last message may be pending. */
	for (int i = 0; i < QPS; i++) {
		struct pollfd fd = { .fd = channels[i]->fd, .events = POLLIN };
		if (poll(&fd, 1, 0) == 1)
			MUST(event(i) == 0);
		MUST(take(i) == 0);
	}
}

static void two_threads_on_a_channel(void)
{
	struct waiter one, two;

	arm(2);
	start(&one, 2, wait_once);
	start(&two, 2, wait_once);
	ask('s', 2, 1, 0);
	was_done();
	wait_seconds(0.05);
	MUST(one.done + two.done == 1);
	take(2);
	arm(2);
	ask('s', 2, 1, 0);
	MUST(pthread_join(one.thread, NULL) == 0 && pthread_join(two.thread, NULL) == 0);
	MUST(one.result == 0 && two.result == 0);
	was_done();
	MUST(take(2) == 1);
}

static void nonblocking(void)
{
	struct pollfd fd = { .fd = channels[1]->fd, .events = POLLIN };
	int flags = fcntl(fd.fd, F_GETFL);

	MUST(fcntl(fd.fd, F_SETFL, flags | O_NONBLOCK) == 0);
	MUST(event(1) == EAGAIN);
	for (int i = 0; i < 20; i++) {
		arm(1);
		MUST(event(1) == EAGAIN && poll(&fd, 1, 0) == 0);
		ask('s', 1, 1, 5000);
		MUST(poll(&fd, 1, 10000) == 1);
		MUST(event(1) == 0 && event(1) == EAGAIN);
		MUST(take(1) == 1);
		was_done();
	}
	MUST(fcntl(fd.fd, F_SETFL, flags) == 0);
	hear_one(1);
}

static void forked(void)
{
	struct waiter waiter;

	arm(0);
	start(&waiter, 0, wait_once);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		MUST(pid >= 0);
		if (pid == 0)
			_exit(0);
		ended_well(pid);
	}
	ask('s', 0, 1, 0);
	MUST(pthread_join(waiter.thread, NULL) == 0 && waiter.result == 0);
	MUST(take(0) == 1);
	was_done();
}

/* A thread that waited before, forks and waits again: the state it slept on belongs to the parent alone. */
static void forks_between_waits(void)
{
	for (int i = 0; i < 3; i++) {
		hear_one(0);
		pid_t pid = fork();
		MUST(pid >= 0);
		if (pid == 0)
			exit(0);
		ended_well(pid);
	}
	hear_one(0);
}

static void a_channel_goes(void)
{
	for (int i = 0; i < 5; i++) {
		struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
		struct ibv_cq *from, *gone = ibv_create_cq(context, 8, NULL, channel, 0);
		void *tag;
		MUST(channel && gone && fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
		MUST(ibv_get_cq_event(channel, &from, &tag) == -1 && errno == EAGAIN);
		MUST(ibv_destroy_cq(gone) == 0 && ibv_destroy_comp_channel(channel) == 0);
		hear_one(i % QPS);
	}
}

/* Returns the number of sleeps of all threads of the process. */
static long sleeps(void)
{
	struct rusage usage;

	MUST(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_nvcsw;
}

static void a_message_costs_one_sleep(void)
{
	long before = sleeps();

	arm(0);
	ask('s', 0, SLOW, SLOW_US);
	for (int left = SLOW; left > 0;) {
		MUST(event(0) == 0);
		arm(0);
		left -= take(0);
	}
	long slept = sleeps() - before;
	was_done();
	printf("%d messages, %ld sleeps\n", SLOW, slept);
	MUST(slept < SLOW * 3 / 2);
	struct pollfd fd = { .fd = channels[0]->fd, .events = POLLIN };
	if (poll(&fd, 1, 0) == 1)
		MUST(event(0) == 0);
}

int main(int argc, char **argv)
{
	struct told told;
	sigset_t held;
	pid_t pid;

	MUST(argc == 3);
	device = argv[1];
	gid_index = atoi(argv[2]);
	sigemptyset(&held);
	sigaddset(&held, SIGURG);
	pthread_sigmask(SIG_BLOCK, &held, NULL);
	setvbuf(stdout, NULL, _IONBF, 0);
	wire = child(peer, &pid);
	open_device();
	region(4096, &memory);
	for (int i = 0; i < QPS; i++) {
		MUST((channels[i] = ibv_create_comp_channel(context)) != NULL);
		MUST((cqs[i] = cq = ibv_create_cq(context, 64, &cqs[i], channels[i], 0)) != NULL);
		qps[i] = meet(wire, memory, &told);
		for (int n = 0; n < RECVS; n++)
			post_recv(i);
	}
	for (int i = 0; i < QPS; i++)
		hear_one(i);
#define CASE(name) (name(), puts(#name))
	CASE(signals);
	CASE(a_handler_jumps);
	CASE(cancelled);
	CASE(many_channels);
	CASE(two_threads_on_a_channel);
	CASE(nonblocking);
	CASE(forked);
	CASE(forks_between_waits);
	CASE(a_channel_goes);
	CASE(a_message_costs_one_sleep);
	ask('e', 0, 0, 0);
	ended_well(pid);
	printf("all as it must be\n");
	return 0;
}
