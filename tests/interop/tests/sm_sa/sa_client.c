/*
 * A client of a subnet's administrator over libibumad, independent of Weft and OpenSM.
 *
 * sa_client paths SECONDS WINDOW    paths from here to LIDs 1 to 14, WINDOW outstanding; prints answers a second
 * sa_client joins SECONDS WINDOW    groups joined and left
 * sa_client flood SECONDS WINDOW    every existing path, over and over, without reading answers
 * sa_client worst SECONDS WINDOW    one path after another, repeated after 100 ms; prints the longest wait
 * sa_client bad COUNT SEED          invalid datagrams, then one valid query
 * sa_client told SECONDS COUNT      subscribes, prints the notices, ends after COUNT about ports
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAD = 256, LONG = 1 << 20, TIMEOUT_MS = 4000, TRY_MS = 100, TRIES = 39, GSI_QKEY = 0x80010000 };
enum { GET = 1, SET = 2, REPORT = 6, GET_TABLE = 0x12, DELETE = 0x15, REPORT_RESP = 0x86 };
enum { INFORM_INFO = 3, PATH_RECORD = 0x35, MC_MEMBER_RECORD = 0x38 };

static int port, agent;
static uint16_t lid, sm_lid;
static uint64_t guid, prefix;
static void *out, *in;
static uint32_t number;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Writes a datagram of the class (IBA 15.2.1.1), without a record. */
static uint8_t *question(int method, uint16_t attribute, uint64_t mask)
{
	uint8_t *mad = umad_get_mad(out);

	memset(mad, 0, MAD);
	mad[0] = 1;
	mad[1] = 3;
	mad[2] = 2;
	mad[3] = method;
	number++;
	memcpy(mad + 12, &number, 4);
	*(uint16_t *)(mad + 16) = htobe16(attribute);
	*(uint64_t *)(mad + 48) = htobe64(mask);
	return mad + 56;
}

static int ask(int timeout)
{
	umad_set_addr(out, sm_lid, 1, 0, GSI_QKEY);
	return umad_send(port, agent, out, MAD, timeout, timeout == TRY_MS ? TRIES : 0);
}

/* A path from this port to a LID: SLID, DLID and one of them. */
static int ask_path(uint16_t to, int timeout)
{
	uint8_t *record = question(GET, PATH_RECORD, 1 << 4 | 1 << 5 | 1 << 12);

	*(uint16_t *)(record + 40) = htobe16(to);
	*(uint16_t *)(record + 42) = htobe16(lid);
	record[49] = 1;
	return ask(timeout);
}

/* Joins a group of its own, or leaves it: each slot has one. */
static int ask_group(int join, uint32_t slot)
{
	uint64_t mask = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 16;
	uint8_t *record = question(join ? SET : DELETE, MC_MEMBER_RECORD, mask);

	record[0] = 0xff;
	record[1] = 0x12;
	*(uint16_t *)(record + 8) = htobe16(lid);
	*(uint32_t *)(record + 12) = htobe32(slot);
	memcpy(record + 16, &prefix, 8);
	memcpy(record + 24, &guid, 8);
	*(uint32_t *)(record + 32) = htobe32(0xb1b);
	*(uint16_t *)(record + 40) = htobe16(0xffff);
	record[48] = 0x21;
	return ask(TIMEOUT_MS);
}

/* Returns the number of the query that an answer is for; 0 if it is for none. */
static uint32_t take(int timeout)
{
	int length = LONG;
	uint8_t *mad = umad_get_mad(in);
	uint32_t answered;

	if (umad_recv(port, in, &length, timeout) < 0 || umad_status(in))
		return 0;
	memcpy(&answered, mad + 12, 4);
	return mad[1] == 3 && mad[3] & 0x80 && !mad[4] && !mad[5] ? answered : 0;
}

static int rate(int joins, double seconds, int window)
{
	double start = now(), end = start + seconds;
	uint32_t *slot = calloc(1 << 16, sizeof *slot), *idle = calloc(window, sizeof *idle), free_count = 0;
	uint8_t *joined = calloc(window, 1);
	long answers = 0;
	int under_way = 0;

	for (int i = 0; i < window; i++)
		idle[free_count++] = i;
	while (now() < end || under_way) {
		uint32_t answered;

		while (free_count && now() < end) {
			uint32_t mine = idle[--free_count];
			int bad = joins ? ask_group(!joined[mine], mine) : ask_path(1 + number % 14, TIMEOUT_MS);

			if (bad < 0)
				return perror("umad_send"), 1;
			slot[number & 0xffff] = mine;
			under_way++;
		}
		if (!under_way)
			break;
		if (!(answered = take(TIMEOUT_MS)))
			return fprintf(stderr, "a wrong answer or none, status %d, 0x%x\n", umad_status(in),
				       be16toh(*(uint16_t *)((uint8_t *)umad_get_mad(in) + 4))),
			       1;
		under_way--;
		answers++;
		idle[free_count++] = slot[answered & 0xffff];
		joined[slot[answered & 0xffff]] ^= 1;
	}
	printf("%.0f answers/sec\n", answers / (now() - start));
	return 0;
}

static int flood(double seconds, int window)
{
	double end = now() + seconds;
	long sent = 0;

	while (now() < end) {
		for (int i = 0; i < window; i++) {
			question(GET_TABLE, PATH_RECORD, 0);
			sent += ask(0) >= 0;
		}
		for (int length = LONG; umad_recv(port, in, &length, 0) >= 0; length = LONG)
			;
	}
	printf("%ld sent\n", sent);
	return 0;
}

static int worst(double seconds)
{
	double end = now() + seconds, longest = 0;
	long answers = 0;

	while (now() < end) {
		double asked = now();

		if (ask_path(sm_lid, TRY_MS) < 0 || !take(TIMEOUT_MS))
			return fprintf(stderr, "no answer\n"), 1;
		if (now() - asked > longest)
			longest = now() - asked;
		answers++;
	}
	printf("%.1f ms at worst of %ld\n", longest * 1e3, answers);
	return 0;
}

/* Any method, any attribute, any mask, any segment of any transfer, any length; most of them nearly right. */
static int bad(long count, unsigned seed)
{
	static const uint8_t methods[] = { 1, 2, 3, 5, 6, 7, 0x12, 0x13, 0x14, 0x15, 0x81, 0x86, 0x92, 0x95 };
	static const uint16_t attributes[] = { 1, 2, 3, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x20, 0x30, 0x31,
					       0x33, 0x35, 0x36, 0x38, 0x3a, 0xf3 };
	long sent = 0;

	srandom(seed);
	for (long i = 0; i < count; i++) {
		uint8_t *mad, *record = question(methods[random() % sizeof methods],
						 attributes[random() % (sizeof attributes / 2)],
						 random() & random() & random());
		int length = random() % 8 ? MAD : 36 + random() % (MAD - 35);

		mad = record - 56;
		for (int at = random() % 200; at < 200; at += 1 + random() % 9)
			record[at] = random();
		if (random() % 2) {
			mad[24] = random() % 8 ? 1 : random();
			mad[25] = random() % 8 ? random() % 6 : random();
			mad[26] = random() % 8 ? random() % 8 : random();
			*(uint32_t *)(mad + 28) = htobe32(random() % 4 ? random() % 8 : random());
			*(uint32_t *)(mad + 32) = htobe32(random() % 4 ? random() % 1024 : random());
		}
		if (!(random() % 8))
			mad[43] = 1;
		if (!(random() % 16))
			mad[random() % 24] = random();
		umad_set_addr(out, sm_lid, 1, 0, GSI_QKEY);
		sent += umad_send(port, agent, out, length, 0, 0) >= 0;
		for (int room = LONG; umad_recv(port, in, &room, 0) >= 0; room = LONG)
			;
	}
	for (int tries = 0; tries < 200; tries++) {
		uint32_t wanted = number + 1, answered = 0;

		for (double end = now() + 0.5; ask_path(sm_lid, TIMEOUT_MS) >= 0 && now() < end && answered != wanted;)
			answered = take(100);
		if (answered == wanted)
			return printf("%ld sent, all is well\n", sent), 0;
	}
	return fprintf(stderr, "%ld sent, and nobody answers any more\n", sent), 1;
}

static int told(double seconds, int count)
{
	double end = now() + seconds;
	uint8_t *mad = umad_get_mad(in), *record = question(SET, INFORM_INFO, 0);
	char text[INET6_ADDRSTRLEN];

	*(uint16_t *)(record + 16) = 0xffff;
	record[22] = 1;
	record[23] = 1;
	*(uint16_t *)(record + 24) = 0xffff;
	*(uint16_t *)(record + 26) = 0xffff;
	memset(record + 33, 0xff, 3);
	if (ask(TIMEOUT_MS) < 0 || !take(TIMEOUT_MS))
		return fprintf(stderr, "not subscribed\n"), 1;
	printf("subscribed\n");
	fflush(stdout);
	while (count && now() < end) {
		int length = LONG;

		if (umad_recv(port, in, &length, 100) < 0 || mad[1] != 3 || mad[3] != REPORT)
			continue;
		inet_ntop(AF_INET6, mad + 56 + 16, text, sizeof text);
		printf("trap %d of %s\n", be16toh(*(uint16_t *)(mad + 60)), text);
		fflush(stdout);
		mad[3] = REPORT_RESP;
		memcpy(umad_get_mad(out), mad, MAD);
		ask(0);
		if (be16toh(*(uint16_t *)(mad + 60)) / 2 == 32)
			count--;
	}
	return count != 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";
	umad_port_t attributes;
	long methods[16 / sizeof(long)] = { 1 << REPORT };
	int plain = !strcmp(what, "bad");

	if (umad_init() < 0 || umad_get_port(NULL, 0, &attributes) < 0 || (port = umad_open_port(NULL, 0)) < 0)
		return fprintf(stderr, "cannot open a port\n"), 1;
	lid = attributes.base_lid;
	sm_lid = attributes.sm_lid;
	guid = attributes.port_guid;
	prefix = attributes.gid_prefix;
	/* A program that handles segments itself leaves no transfer to libibumad. */
	agent = umad_register(port, 3, 2, !plain, strcmp(what, "told") ? NULL : methods);
	if (agent < 0)
		return fprintf(stderr, "cannot register\n"), 1;
	out = umad_alloc(1, umad_size() + MAD);
	in = umad_alloc(1, umad_size() + LONG);
	if (!strcmp(what, "paths") || !strcmp(what, "joins"))
		return rate(*what == 'j', atof(argv[2]), atoi(argv[3]));
	if (!strcmp(what, "flood"))
		return flood(atof(argv[2]), atoi(argv[3]));
	if (!strcmp(what, "worst"))
		return worst(atof(argv[2]));
	if (plain)
		return bad(atol(argv[2]), atoi(argv[3]));
	if (!strcmp(what, "told"))
		return told(atof(argv[2]), atoi(argv[3]));
	return fprintf(stderr, "sa_client paths|joins|flood|worst|bad|told NUMBER NUMBER\n"), 2;
}
