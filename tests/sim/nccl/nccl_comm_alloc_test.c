/* Communicators with every allocation made to fail once: clean errors, no leak. */
#include "tests/alloc_fail.h"

#include "sim/nccl.h"
#include "tests/runtime/nccl_hosts.h"

static int story(const char *machine, uint32_t nodes, struct tutti_err *err)
{
    struct tutti_nccl_comm_params params = {.host_count = nodes};
    struct tutti_nccl_comm *comm = NULL;
    struct host host;
    int status;

    CHECK(host_named(&host, machine));
    params.hardware = host_hardware(&host);
    status = tutti_nccl_comm_new(&params, &comm, err);
    CHECK((status == 0) == (comm != NULL));
    tutti_nccl_comm_free(comm);
    return status;
}

TEST(a_communicator_of_one_node)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(story("H100x8", 1, &err), err);
}

TEST(a_communicator_of_several_nodes)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(story("L40x4", 2, &err), err);
}
