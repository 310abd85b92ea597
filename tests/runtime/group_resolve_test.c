/* A name server that does not answer: to meet by a name ends at the deadline all the same, and says
 * what it waited for. The resolver of this program is its own, which can be slow. */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime/group/address.h"
#include "tests/runtime/group_world.h"

static atomic_int asking_count; /* calls of getaddrinfo for the slow name that have not returned */
static atomic_bool answers;     /* they shall return now */

/* "slow.test" is 127.0.0.1, which one learns late. */
int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } * found;
    struct in_addr numeric;
    bool slow = strcmp(host, "slow.test") == 0;

    (void)service;
    if (inet_pton(AF_INET, host, &numeric) == 1 || (slow && hints->ai_flags == 0)) {
        if (slow) {
            atomic_fetch_add(&asking_count, 1);
            while (!atomic_load(&answers))
                (void)poll(NULL, 0, 5);
            atomic_fetch_sub(&asking_count, 1);
            (void)inet_pton(AF_INET, "127.0.0.1", &numeric);
        }
        found = calloc(1, sizeof(*found));
        if (found == NULL)
            return EAI_MEMORY;
        found->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = numeric};
        found->info = (struct addrinfo){.ai_family = AF_INET,
                                        .ai_socktype = SOCK_STREAM,
                                        .ai_addrlen = sizeof(found->address),
                                        .ai_addr = (struct sockaddr *)&found->address};
        *ret = &found->info;
        return 0;
    }
    return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    free(list);
}

static void let_all_answer(void)
{
    atomic_store(&answers, true);
    while (atomic_load(&asking_count) > 0)
        (void)poll(NULL, 0, 5);
    (void)poll(NULL, 0, 50); /* and clean up */
}

TEST(who_looks_for_process_0_stops_at_the_deadline)
{
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .index = 1,
                                        .count = 2,
                                        .root = "slow.test:4242",
                                        .secret = "open sesame open",
                                        .secret_bytes = 16,
                                        .deadline_ps = TUTTI_PS_PER_S / 2};
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    time_t start = time(NULL);

    atomic_store(&answers, false);
    CHECK_INT(tutti_group_tcp_open(&opts, &group, &err), -TUTTI_ETIME);
    CHECK(time(NULL) - start < 30); /* it would be for ever */
    CHECK_INT(atomic_load(&asking_count), 1);
    if (strstr(err.text, "process 0 of 2 has not been reached within 500ms: host 'slow.test' has "
                         "not been looked up within ") == NULL)
        TEST_FAIL("'%s'", err.text);
    let_all_answer();
}

TEST(process_0_itself_stops_at_the_deadline)
{
    struct tutti_group_tcp_opts opts = {.size = sizeof(struct tutti_group_tcp_opts),
                                        .count = 2,
                                        .root = "slow.test:0",
                                        .deadline_ps = TUTTI_PS_PER_S / 4};
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_err err = {""};
    int fd = -1;

    atomic_store(&answers, false);
    CHECK_INT(tutti_group_tcp_listen(&opts, &fd, root, &err), -TUTTI_EIO);
    CHECK_TEXT(err.text, "host 'slow.test' has not been looked up within 250ms");
    let_all_answer();
}

TEST(a_name_that_is_found_in_time_is_used)
{
    struct tutti_address address;
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    struct tutti_err err = {""};

    atomic_store(&answers, true);
    CHECK_OK(tutti_address_resolve("slow.test", 4242, 0, 20 * TUTTI_PS_PER_S, &address, &err), err);
    CHECK_TEXT(tutti_address_text(&address, text), "127.0.0.1:4242");
    CHECK_INT(tutti_address_resolve("slow.test", 4242, 1, 20 * TUTTI_PS_PER_S, &address, &err),
              -TUTTI_EIO);
    CHECK_TEXT(err.text, "host 'slow.test' has no (further) address");
    CHECK_INT(tutti_address_resolve("nowhere.test", 1, 0, 20 * TUTTI_PS_PER_S, &address, &err),
              -TUTTI_EIO);
    if (strncmp(err.text, "host 'nowhere.test' is not known: ", 34) != 0)
        TEST_FAIL("'%s'", err.text);
}
