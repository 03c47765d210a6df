/* A load generator that is not itself the bottleneck: one epoll thread, K connections, N requests outstanding on each.
 *
 *   load HOST PORT MODE CONNECTIONS OUTSTANDING SECONDS BODY_BYTES BATCH TOPIC QUEUES
 *     MODE send  SEND_MESSAGE_V2, one message of BODY_BYTES        (BATCH is 1)
 *          batch SEND_BATCH_MESSAGE, BATCH messages of BODY_BYTES
 *          pull  PULL_MESSAGE of at most BATCH messages, from offset 0 on, round and round
 *          hold  idle consumers: every connection is a group of its own with a long poll on an empty topic, a heartbeat
 *                every 30 s and a committed offset every 5 s
 *          trip  one message at a time, from its send to the response of the long poll that waits for it
 *     TOPIC name#N means N topics in turn, name-0 … name-(N-1)
 *
 * Prints one line: requests messages seconds messages/s p50 p99 p999 (µs) errors. Latencies are matched by opaque.
 * Requests are real frames: length, header word, JSON header as a Java client writes it, body.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SEND, BATCH, PULL, HOLD, TRIP };
enum { IN_BYTES = 1 << 20, HEADER_BYTES = 1024, BUCKETS = 200000 };

struct connection {
    int fd, queue, want_write;
    long long offset;
    unsigned char *in, *out;
    size_t in_used, out_used, out_sent, out_size;
    uint32_t next_opaque;
    double beat_at, commit_at;
    double *sent_at; /* by opaque modulo outstanding */
};

static int mode, outstanding, body_bytes, batch, queues, topics;
static const char *topic;
static unsigned char *body;
static size_t body_size;
static long requests, messages, errors;
static uint32_t histogram[BUCKETS]; /* one per microsecond */

static double now(void) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec + moment.tv_nsec / 1e9;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void put32(unsigned char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static uint32_t get32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static const char *ENDING = "\"flag\":%d,\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}";

static int header_of(char *text, struct connection *each, uint32_t opaque) {
    static long long counter;
    int waits = mode == HOLD || mode == TRIP, used;
    if (mode == PULL || mode == HOLD) {
        char group[32] = "load";
        if (mode == HOLD) snprintf(group, sizeof group, "idle-%d", each->fd);
        used = snprintf(text, HEADER_BYTES,
                        "{\"code\":11,\"extFields\":{\"consumerGroup\":\"%s\",\"topic\":\"%s\",\"queueId\":\"%d\","
                        "\"queueOffset\":\"%lld\",\"maxMsgNums\":\"%d\",\"sysFlag\":\"%d\",\"commitOffset\":\"0\","
                        "\"suspendTimeoutMillis\":\"%d\",\"subscription\":\"*\",\"subVersion\":\"0\",\"expressionType\":\"TAG\"},",
                        group, topic, each->queue, each->offset, batch, waits ? 6 : 4, waits ? 15000 : 0);
    } else {
        char name[128];
        if (topics > 1) snprintf(name, sizeof name, "%s-%lld", topic, counter % topics);
        else snprintf(name, sizeof name, "%s", topic);
        each->queue = (each->queue + 1) % queues;
        used = snprintf(text, HEADER_BYTES,
                        "{\"code\":%d,\"extFields\":{\"a\":\"load_producer_group\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"%d\","
                        "\"f\":\"0\",\"g\":\"1718000000000\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u00017F00000100002A9F18B4AAC2%08llX\\u0002"
                        "WAIT\\u0001true\\u0002TAGS\\u0001TagA\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\",\"n\":\"broker-a\"},",
                        mode == BATCH ? 320 : 310, name, each->queue, counter++, mode == BATCH ? "true" : "false");
    }
    return used + snprintf(text + used, HEADER_BYTES - used, ENDING, 0, opaque);
}

static void append(struct connection *each, const char *header, size_t size, const void *content, size_t content_size) {
    size_t need = each->out_used + 8 + size + content_size;
    if (need > each->out_size) {
        each->out_size = need * 2;
        each->out = realloc(each->out, each->out_size);
        if (!each->out) die("realloc");
    }
    put32(each->out + each->out_used, 4 + size + content_size);
    put32(each->out + each->out_used + 4, size);
    memcpy(each->out + each->out_used + 8, header, size);
    if (content_size) memcpy(each->out + each->out_used + 8 + size, content, content_size);
    each->out_used = need;
}

static void add_request(struct connection *each) {
    char header[HEADER_BYTES];
    uint32_t opaque = each->next_opaque++;
    size_t size = header_of(header, each, opaque);
    append(each, header, size, body, body_size);
    each->sent_at[opaque % outstanding] = now();
}

/* What an idle consumer sends beside its pull; responses are told apart by their opaque. */
static const uint32_t ASIDE = 1u << 30;

static void stay_alive(struct connection *each, double moment) {
    char header[HEADER_BYTES], text[HEADER_BYTES];
    if (moment >= each->beat_at) {
        each->beat_at = moment + 30;
        size_t size = snprintf(header, sizeof header, "{\"code\":34,");
        size += snprintf(header + size, sizeof header - size, ENDING, 0, ASIDE);
        size_t length = snprintf(text, sizeof text,
                                 "{\"clientID\":\"127.0.0.1@idle-%d\",\"producerDataSet\":[],\"consumerDataSet\":[{\"groupName\":\"idle-%d\","
                                 "\"consumeType\":\"CONSUME_PASSIVELY\",\"messageModel\":\"CLUSTERING\",\"consumeFromWhere\":\"CONSUME_FROM_LAST_OFFSET\","
                                 "\"subscriptionDataSet\":[{\"topic\":\"%s\",\"subString\":\"*\",\"tagsSet\":[],\"codeSet\":[],\"subVersion\":1,"
                                 "\"expressionType\":\"TAG\",\"classFilterMode\":false}],\"unitMode\":false}]}",
                                 each->fd, each->fd, topic);
        append(each, header, size, text, length);
    }
    if (moment >= each->commit_at) {
        each->commit_at = moment + 5;
        size_t size = snprintf(header, sizeof header,
                               "{\"code\":15,\"extFields\":{\"consumerGroup\":\"idle-%d\",\"topic\":\"%s\",\"queueId\":\"%d\",\"commitOffset\":\"0\"},",
                               each->fd, topic, each->queue);
        size += snprintf(header + size, sizeof header - size, ENDING, 2, ASIDE + 1);
        append(each, header, size, NULL, 0);
    }
}

static void flush(int poll, struct connection *each) {
    while (each->out_sent < each->out_used) {
        ssize_t wrote = write(each->fd, each->out + each->out_sent, each->out_used - each->out_sent);
        if (wrote < 0) {
            if (errno != EAGAIN) die("write");
            break;
        }
        each->out_sent += wrote;
    }
    int want_write = each->out_sent < each->out_used;
    if (!want_write) each->out_sent = each->out_used = 0;
    if (want_write != each->want_write) {
        struct epoll_event event = {.events = EPOLLIN | (want_write ? EPOLLOUT : 0), .data.ptr = each};
        epoll_ctl(poll, EPOLL_CTL_MOD, each->fd, &event);
        each->want_write = want_write;
    }
}

static long long number_after(const unsigned char *header, size_t size, const char *name) {
    const unsigned char *found = memmem(header, size, name, strlen(name));
    if (!found) return -1;
    found += strlen(name);
    while (*found == '"' || *found == ':') found++;
    return atoll((const char *)found);
}

static int is_aside(const unsigned char *frame) {
    size_t header_size = get32(frame + 4) & 0xffffff;
    return number_after(frame + 8, header_size, "\"opaque\"") >= ASIDE || !(number_after(frame + 8, header_size, "\"flag\"") & 1);
}

static void answered(struct connection *each, unsigned char *frame, size_t length) {
    size_t header_size = get32(frame + 4) & 0xffffff;
    unsigned char *header = frame + 8;
    uint32_t opaque = number_after(header, header_size, "\"opaque\"");
    double latency = (now() - each->sent_at[opaque % outstanding]) * 1e6;
    histogram[latency < BUCKETS ? (int)latency : BUCKETS - 1]++;
    int code = number_after(header, header_size, "\"code\"");
    requests++;
    if (mode == HOLD) {
        if (code != 19) errors++;
        return;
    }
    if (mode != PULL) {
        if (code) errors++;
        messages += mode == BATCH ? batch : 1;
        return;
    }
    size_t at = 8 + header_size, end = length + 4;
    while (at + 4 <= end) {
        messages++;
        at += get32(frame + at);
    }
    if (code == 0) each->offset = number_after(header, header_size, "\"nextBeginOffset\"");
    else each->offset = 0;
}

static void readable(struct connection *each) {
    ssize_t got = read(each->fd, each->in + each->in_used, IN_BYTES - each->in_used);
    if (got == 0) { fprintf(stderr, "the server closed a connection\n"); exit(1); }
    if (got < 0) { if (errno == EAGAIN) return; die("read"); }
    each->in_used += got;
    size_t at = 0;
    while (each->in_used - at >= 4) {
        size_t length = get32(each->in + at);
        if (length + 4 > IN_BYTES) { fprintf(stderr, "a response is too long\n"); exit(1); }
        if (each->in_used - at < length + 4) break;
        if (mode != HOLD || !is_aside(each->in + at)) {
            answered(each, each->in + at, length);
            add_request(each);
        }
        at += length + 4;
    }
    memmove(each->in, each->in + at, each->in_used - at);
    each->in_used -= at;
}

static double percentile(double part) {
    long wanted = requests * part, seen = 0;
    for (int at = 0; at < BUCKETS; at++)
        if ((seen += histogram[at]) > wanted) return at;
    return BUCKETS;
}

static void make_body(void) {
    size_t item = 22 + body_bytes;
    body_size = mode == PULL || mode == HOLD ? 0 : mode == BATCH ? item * batch : (size_t)body_bytes;
    body = calloc(1, body_size + 1);
    if (mode == SEND || mode == TRIP) memset(body, 'x', body_size);
    for (int n = 0; mode == BATCH && n < batch; n++) {
        put32(body + n * item, item);
        put32(body + n * item + 16, body_bytes);
        memset(body + n * item + 20, 'x', body_bytes);
    }
}

static int connected(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || (ntohl(address.sin_addr.s_addr) >> 24) != 127) { fprintf(stderr, "loopback only\n"); exit(2); }
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static size_t read_frame(struct connection *each) {
    size_t used = 0;
    for (;;) {
        if (used >= 4 && used >= get32(each->in) + 4) return get32(each->in);
        ssize_t got = read(each->fd, each->in + used, IN_BYTES - used);
        if (got <= 0) die("read");
        used += got;
    }
}

/* Blocking, two connections: the pull goes out first, so that it usually waits already when the message is sent. */
static void trips(const char *host, const char *port, double seconds) {
    struct connection sender = {.in = malloc(IN_BYTES)}, reader = {.in = malloc(IN_BYTES)};
    double sent_at[1];
    sender.sent_at = reader.sent_at = sent_at;
    sender.fd = connected(host, port);
    reader.fd = connected(host, port);
    double start = now(), moment;
    long long known = -1;
    while ((moment = now()) < start + seconds) {
        if (known >= 0) {
            mode = HOLD;
            size_t kept = body_size;
            body_size = 0;
            add_request(&reader);
            body_size = kept;
            mode = TRIP;
            if (write(reader.fd, reader.out, reader.out_used) != (ssize_t)reader.out_used) die("write");
            reader.out_used = 0;
            moment = now();
        }
        add_request(&sender);
        if (write(sender.fd, sender.out, sender.out_used) != (ssize_t)sender.out_used) die("write");
        sender.out_used = 0;
        if (known >= 0) {
            read_frame(&reader);
            double latency = (now() - moment) * 1e6;
            histogram[latency < BUCKETS ? (int)latency : BUCKETS - 1]++;
            requests++;
            messages++;
            size_t size = get32(reader.in + 4) & 0xffffff;
            if (number_after(reader.in + 8, size, "\"code\"")) errors++;
            reader.offset = number_after(reader.in + 8, size, "\"nextBeginOffset\"");
        }
        read_frame(&sender);
        size_t size = get32(sender.in + 4) & 0xffffff;
        if (number_after(sender.in + 8, size, "\"code\"")) { errors++; break; }
        if (known < 0) known = reader.offset = number_after(sender.in + 8, size, "\"queueOffset\"") + 1;
    }
    double took = now() - start;
    printf("%ld %ld %.3f %.0f %.0f %.0f %.0f %ld\n", requests, messages, took, messages / took, percentile(0.5), percentile(0.99), percentile(0.999), errors);
}

int main(int count, char **words) {
    if (count != 11) { fprintf(stderr, "usage: load HOST PORT send|batch|pull|hold|trip CONNECTIONS OUTSTANDING SECONDS BODY BATCH TOPIC QUEUES\n"); return 2; }
    const char *modes[] = {"send", "batch", "pull", "hold", "trip"};
    for (mode = SEND; mode < TRIP && strcmp(words[3], modes[mode]);) mode++;
    int connections = atoi(words[4]);
    outstanding = atoi(words[5]);
    double seconds = atof(words[6]);
    body_bytes = atoi(words[7]);
    batch = atoi(words[8]);
    char *many = strchr(words[9], '#');
    topics = many ? atoi(many + 1) : 1;
    if (many) *many = 0;
    topic = words[9];
    queues = atoi(words[10]);
    if (connections < 1 || connections > 2048 || outstanding < 1 || seconds <= 0 || seconds > 120) { fprintf(stderr, "out of bounds\n"); return 2; }
    make_body();
    if (mode == TRIP) {
        queues = 1;
        trips(words[1], words[2], seconds);
        return 0;
    }
    int poll = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    for (int n = 0; n < connections; n++) {
        struct connection *each = &all[n];
        each->fd = connected(words[1], words[2]);
        fcntl(each->fd, F_SETFL, O_NONBLOCK);
        each->queue = n % queues;
        each->in = malloc(IN_BYTES);
        each->sent_at = calloc(outstanding, sizeof(double));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
        epoll_ctl(poll, EPOLL_CTL_ADD, each->fd, &event);
        each->beat_at = now() + 30.0 * n / connections;
        each->commit_at = now() + 5.0 * n / connections;
        for (int k = 0; k < outstanding; k++) add_request(each);
        flush(poll, each);
    }
    double start = now(), end = start + seconds;
    struct epoll_event events[256];
    while (now() < end) {
        for (int n = 0; mode == HOLD && n < connections; n++) {
            stay_alive(&all[n], now());
            flush(poll, &all[n]);
        }
        int ready = epoll_wait(poll, events, 256, 100);
        for (int n = 0; n < ready; n++) {
            struct connection *each = events[n].data.ptr;
            if (events[n].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(each);
            flush(poll, each);
        }
    }
    double took = now() - start;
    printf("%ld %ld %.3f %.0f %.0f %.0f %.0f %ld\n", requests, messages, took, messages / took, percentile(0.5), percentile(0.99), percentile(0.999), errors);
    return 0;
}
