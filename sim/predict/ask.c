/* A question as its caller has it, made whole: fields that later versions added, what is chosen. */
#include "sim/predict/ask.h"

#include <string.h>

#include "sim/predict.h"

int tutti_ask_take(const struct tutti_ask *given, struct tutti_ask *ret, struct tutti_err *err)
{
    return tutti_take("tutti_ask", ret, sizeof(*ret), given,
                      TUTTI_BYTES_TO(struct tutti_ask, step_count_max), err);
}

const struct tutti_protocol *tutti_ask_protocols(const struct tutti_ask *ask)
{
    size_t count;

    return ask->protocols != NULL ? ask->protocols : tutti_protocols(&count);
}

int tutti_ask_protocol(const struct tutti_ask *given, const char *name,
                       const struct tutti_protocol **ret, struct tutti_err *err)
{
    const struct tutti_protocol *protocols;
    struct tutti_ask ask;
    int status = tutti_ask_take(given, &ask, err);

    if (status < 0)
        return status;
    protocols = tutti_ask_protocols(&ask);
    for (size_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        if (strcmp(name, protocols[i].name) == 0) {
            *ret = &protocols[i];
            return 0;
        }
    }
    return tutti_protocol_find(name, ret, err);
}
