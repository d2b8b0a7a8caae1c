// A client that recovers as communication libraries do when a connection cannot be made. It resolves an address and a route
// again on the same identifier, and connects again on a new one.
// Arguments: ADDRESS PORT ATTEMPTS CONNECTIONS

#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Longer than a busy machine takes.
#define LIMIT_MS 20000

static struct rdma_event_channel *channel;

// Returns whether the next event is the wanted one; prints any other.
static int next(enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(channel, &event)) {
        perror("rdma_get_cm_event");
        exit(2);
    }
    int found = event->event == wanted;
    if (!found)
        printf("failure: %s %d\n", rdma_event_str(event->event), event->status);
    rdma_ack_cm_event(event);
    return found;
}

// Returns whether the call succeeded; prints its error.
static int call(const char *name, int result)
{
    if (result)
        printf("failure: %s: %m\n", name);
    return !result;
}

static int resolve(struct rdma_cm_id *id, struct sockaddr *address, int attempts)
{
    for (int n = 0; n < attempts; n++) {
        if (call("rdma_resolve_addr", rdma_resolve_addr(id, NULL, address, LIMIT_MS)) && next(RDMA_CM_EVENT_ADDR_RESOLVED))
            for (; n < attempts; n++)
                if (call("rdma_resolve_route", rdma_resolve_route(id, LIMIT_MS)) && next(RDMA_CM_EVENT_ROUTE_RESOLVED))
                    return 1;
    }
    return 0;
}

static int connect_once(struct sockaddr *address, int attempts)
{
    struct rdma_cm_id *id;
    struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1 }, .qp_type = IBV_QPT_RC };
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    if (!call("rdma_create_id", rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)))
        return 0;
    int done = resolve(id, address, attempts);
    if (done) {
        attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
        done = call("rdma_create_qp", rdma_create_qp(id, NULL, &attr));
    }
    if (done) {
        done = call("rdma_connect", rdma_connect(id, &param)) && next(RDMA_CM_EVENT_ESTABLISHED);
        if (done)
            done = call("rdma_disconnect", rdma_disconnect(id)) && next(RDMA_CM_EVENT_DISCONNECTED);
        rdma_destroy_qp(id);
        ibv_destroy_cq(attr.send_cq);
    }
    rdma_destroy_id(id);
    return done;
}

int main(int argc, char **argv)
{
    struct addrinfo *found;
    if (argc != 5 || getaddrinfo(argv[1], argv[2], NULL, &found))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    channel = rdma_create_event_channel();
    int attempts = atoi(argv[3]), connections = atoi(argv[4]), made = 0;
    for (int failed = 0; made < connections && failed < attempts;)
        if (connect_once(found->ai_addr, attempts))
            made++;
        else
            failed++;
    printf("%d connected\n", made);
    return made < connections;
}
