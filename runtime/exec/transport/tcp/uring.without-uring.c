/* The engine `uring` where this build has no liburing. */
#include <stdlib.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"

int tutti_tcp_uring_check(struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK,
                      "this build is without io_uring; apt install liburing-dev, build again");
}

const struct tutti_tcp_engine_ops tutti_tcp_uring = {.name = "uring"};
