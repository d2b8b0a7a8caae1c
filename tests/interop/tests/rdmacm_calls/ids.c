/* Identifiers, channels, addresses and options: the manual pages' promises before any connection. Arguments: an address
 * of this machine, and the name of its device. */

#define _GNU_SOURCE
#include "must.h"
#include <dlfcn.h>

static const char *local;

static void channels(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	MUST(channel != NULL);
	MUST(!readable(channel->fd, 0));
	MUST(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
	FAILS(rdma_get_cm_event(channel, NULL), EINVAL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
	rdma_destroy_event_channel(channel);
	MUST(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
	MUST(!strcmp(rdma_event_str(99), "UNKNOWN EVENT"));
}

static void devices(const char *name)
{
	struct ibv_context **list;
	struct rdma_cm_id *id;
	int count = -1, found = 0, i;

	list = rdma_get_devices(&count);
	MUST(list != NULL && count > 0 && list[count] == NULL);
	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(id->verbs == NULL && id->pd == NULL && id->qp_type == IBV_QPT_RC && id->ps == RDMA_PS_TCP);
	MUST(rdma_bind_addr(id, address(local, 0)) == 0);
	MUST(id->verbs != NULL && id->pd != NULL && id->port_num == 1 && id->pd->context == id->verbs);
	MUST(!strcmp(ibv_get_device_name(id->verbs->device), name));
	for (i = 0; i < count; i++)
		found += list[i] == id->verbs;
	MUST(found == 1);
	MUST(rdma_get_src_port(id) != 0 && rdma_get_dst_port(id) == 0);
	MUST(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_port == rdma_get_src_port(id));
	MUST(rdma_destroy_id(id) == 0);
	rdma_free_devices(list);
}

static void binding(void)
{
	struct rdma_cm_id *a, *b;
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr strange = { .sa_family = AF_UNIX };
	int port, yes = 1;

	MUST(rdma_create_id(NULL, &a, &six, RDMA_PS_TCP) == 0 && a->context == &six);
	MUST(rdma_create_id(NULL, &b, NULL, RDMA_PS_TCP) == 0);
	FAILS(rdma_bind_addr(a, &strange), EINVAL);
	FAILS(rdma_bind_addr(a, address("198.51.100.7", 0)), EADDRNOTAVAIL);
	MUST(rdma_bind_addr(a, address("0.0.0.0", 0)) == 0);
	MUST(a->verbs == NULL && rdma_get_src_port(a) != 0);
	FAILS(rdma_bind_addr(a, address("0.0.0.0", 0)), EINVAL);
	port = ntohs(rdma_get_src_port(a));
	MUST(rdma_listen(a, 4) == 0);
	/* Linux has one errno for ports that a wildcard holds and another for the same address. */
	FAILS(rdma_bind_addr(b, address(local, port)), EADDRNOTAVAIL);
	MUST(rdma_bind_addr(b, address(local, 0)) == 0);
	MUST(rdma_destroy_id(a) == 0);
	MUST(rdma_create_id(NULL, &a, NULL, RDMA_PS_TCP) == 0);
	FAILS(rdma_bind_addr(a, address(local, ntohs(rdma_get_src_port(b)))), EADDRINUSE);
	MUST(rdma_destroy_id(b) == 0);

	/* Identifiers share a port if all set REUSEADDR, and it is free once its owner is gone. */
	MUST(rdma_destroy_id(a) == 0);
	MUST(rdma_create_id(NULL, &a, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_create_id(NULL, &b, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)) == 0);
	MUST(rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)) == 0);
	MUST(rdma_bind_addr(a, address(local, port)) == 0);
	MUST(rdma_bind_addr(b, address(local, port)) == 0);
	MUST(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0);

	/* Another port space has its own ports. */
	MUST(rdma_create_id(NULL, &a, NULL, RDMA_PS_TCP) == 0 && rdma_create_id(NULL, &b, NULL, RDMA_PS_UDP) == 0);
	MUST(b->qp_type == IBV_QPT_UD);
	MUST(rdma_bind_addr(a, address(local, port)) == 0 && rdma_bind_addr(b, address(local, port)) == 0);
	MUST(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0);
	FAILS(rdma_create_id(NULL, &a, NULL, 0x1234), EINVAL);
}

static void options(void)
{
	struct rdma_cm_id *id;
	uint8_t tos = 32, timeout = 18, much = 200;
	int yes = 1;

	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) == 0);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, sizeof(yes)), EINVAL);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)) == 0);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)) == 0);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &much, sizeof(much)), EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, 77, &yes, sizeof(yes)), ENOSYS);
	FAILS(rdma_set_option(id, 9, 0, &yes, sizeof(yes)), ENOSYS);
	MUST(rdma_destroy_id(id) == 0);
}

static void resolving(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *sync;
	char context;

	MUST(rdma_create_id(channel, &id, &context, RDMA_PS_TCP) == 0);
	FAILS(rdma_resolve_route(id, 1000), EINVAL);
	MUST(rdma_resolve_addr(id, NULL, address(local, 7471), 2000) == 0);
	event = expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(event->id == id && event->status == 0 && event->listen_id == NULL && id->context == &context);
	MUST(id->verbs != NULL && id->port_num == 1 && id->route.num_paths == 0);
	MUST(rdma_get_dst_port(id) == htons(7471));
	MUST(rdma_ack_cm_event(event) == 0);
	MUST(rdma_resolve_route(id, 2000) == 0);
	event = expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(id->route.num_paths == 1 && id->route.path_rec->hop_limit > 0 && id->route.path_rec->mtu >= 1);
	MUST(!memcmp(&id->route.path_rec->sgid, &id->route.addr.addr.ibaddr.sgid, 16));
	MUST(id->route.path_rec->pkey == 0xffff);
	MUST(rdma_ack_cm_event(event) == 0);
	FAILS(rdma_get_request(id, &sync), EINVAL);
	MUST(rdma_destroy_id(id) == 0);

	/* Without a channel the calls return when they are done. */
	MUST(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(sync, NULL, address(local, 7471), 2000) == 0);
	MUST(sync->event && sync->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(sync, 2000) == 0 && sync->route.num_paths == 1);
	MUST(rdma_destroy_id(sync) == 0);
	rdma_destroy_event_channel(channel);
}

/* A thread may use a channel that another one just destroyed: rping of rdma-core 44 does so at its end. */
static void destroyed_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *none;

	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	rdma_destroy_event_channel(channel);
	FAILS(rdma_get_cm_event(channel, &event), EBADF);
	FAILS(rdma_create_id(channel, &none, NULL, RDMA_PS_TCP), EBADF);
	FAILS(rdma_migrate_id(id, channel), EBADF);
	MUST(rdma_destroy_id(id) == 0);
}

static void moving(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel(), *two = rdma_create_event_channel();
	struct rdma_cm_id *id, *gone;

	/* Pending events move along. */
	MUST(rdma_create_id(one, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, address(local, 7471), 2000) == 0);
	MUST(readable(one->fd, 5000));
	MUST(rdma_migrate_id(id, two) == 0 && id->channel == two);
	MUST(!readable(one->fd, 50));
	pass(two, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_migrate_id(id, NULL) == 0 && id->channel != two);
	MUST(rdma_resolve_route(id, 2000) == 0);
	FAILS(rdma_migrate_id(id, NULL), EINVAL);
	MUST(rdma_destroy_id(id) == 0);

	/* Pending events of a destroyed identifier are dropped. */
	MUST(rdma_create_id(one, &gone, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(gone, NULL, address(local, 7471), 2000) == 0);
	MUST(readable(one->fd, 5000));
	MUST(rdma_destroy_id(gone) == 0);
	MUST(!readable(one->fd, 50));
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
}

static void names(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;

	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	MUST(rdma_getaddrinfo(NULL, "7471", &hints, &res) == 0);
	MUST(res->ai_flags & RAI_PASSIVE && res->ai_src_len > 0 && res->ai_dst_len == 0);
	MUST(res->ai_qp_type == IBV_QPT_RC && res->ai_port_space == RDMA_PS_TCP && !res->ai_next);
	rdma_freeaddrinfo(res);

	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_UDP };
	MUST(rdma_getaddrinfo(local, "7471", &hints, &res) == 0);
	MUST(res->ai_family == AF_INET && res->ai_dst_len == sizeof(struct sockaddr_in) && res->ai_src_len == 0);
	MUST(res->ai_qp_type == IBV_QPT_UD && ((struct sockaddr_in *)res->ai_dst_addr)->sin_port == htons(7471));
	rdma_freeaddrinfo(res);
	MUST(rdma_getaddrinfo("no number", NULL, &hints, &res) == EAI_NONAME);

	hints = (struct rdma_addrinfo){ .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC };
	hints.ai_src_addr = address(local, 0);
	hints.ai_dst_addr = address(local, 9);
	hints.ai_src_len = hints.ai_dst_len = sizeof(struct sockaddr_in);
	MUST(rdma_getaddrinfo(NULL, NULL, &hints, &res) == 0);
	MUST(res->ai_src_addr != hints.ai_src_addr && !memcmp(res->ai_src_addr, hints.ai_src_addr, res->ai_src_len));
	MUST(!memcmp(res->ai_dst_addr, hints.ai_dst_addr, res->ai_dst_len));
	rdma_freeaddrinfo(res);
	rdma_freeaddrinfo(NULL);

	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST | RAI_FAMILY, .ai_family = 27 /* AF_IB */,
					.ai_port_space = RDMA_PS_TCP };
	MUST(rdma_getaddrinfo("::ffff:10.77.0.1", "7471", &hints, &res) == 0);
	MUST(res->ai_family == 27 && res->ai_dst_addr->sa_family == 27 && res->ai_dst_len == 48);
	rdma_freeaddrinfo(res);
}

/* Calls that headers before rdma-core 56 do not have. */
static void written_events(void)
{
	int (*write_event)(struct rdma_cm_id *, int, int, uint64_t) = dlsym(RTLD_DEFAULT, "rdma_write_cm_event");
	int (*resolve)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *) =
		dlsym(RTLD_DEFAULT, "rdma_resolve_addrinfo");
	int (*query)(struct rdma_cm_id *, struct rdma_addrinfo **) = dlsym(RTLD_DEFAULT, "rdma_query_addrinfo");
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo *res;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	MUST(write_event && resolve && query);
	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	FAILS(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 1), EINVAL);
	MUST(write_event(id, 18, 5, 0x123456789abcdefULL) == 0);
	event = expect(channel, 18);
	MUST(event->id == id && event->status == 5 && *(uint64_t *)&event->param == 0x123456789abcdefULL);
	MUST(rdma_ack_cm_event(event) == 0);

	FAILS(query(id, &res), ENOENT);
	MUST(resolve(id, local, "7471", NULL) == 0);
	FAILS(resolve(id, local, "7471", NULL), EBUSY);
	pass(channel, 16);
	MUST(query(id, &res) == 0 && res->ai_dst_len == sizeof(struct sockaddr_in));
	rdma_freeaddrinfo(res);
	FAILS(query(id, &res), ENOENT);
	MUST(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

static void options_of_vendors(void)
{
	struct ibv_ece ece = { .vendor_id = 7, .options = 9 }, got = {};
	struct rdma_cm_id *id;

	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_set_local_ece(id, &ece) == 0);
	MUST(rdma_get_remote_ece(id, &got) == 0 && got.vendor_id == 0);
	ece.vendor_id = 0;
	FAILS(rdma_set_local_ece(id, &ece), EINVAL);
	FAILS(rdma_set_local_ece(NULL, &ece), EINVAL);
	FAILS(rdma_get_remote_ece(id, NULL), EINVAL);
	MUST(rdma_destroy_id(id) == 0);
}

int main(int argc, char **argv)
{
	MUST(argc == 3);
	local = argv[1];
	channels();
	devices(argv[2]);
	binding();
	options();
	resolving();
	destroyed_channel();
	moving();
	names();
	written_events();
	options_of_vendors();
	puts("all as it must be");
	return 0;
}
