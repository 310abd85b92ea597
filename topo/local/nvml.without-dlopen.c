/* NVML where libraries cannot be opened at run time: there is none. */
#include "runtime/status.h"
#include "topo/local/facts.h"

int tutti_nvml_open(const char *library, struct tutti_nvml **ret, struct tutti_err *err)
{
    if (library != NULL)
        return tutti_fail(err, TUTTI_ELACK, "cannot open NVML: %s: this build has no dlopen",
                          library);
    *ret = NULL;
    return 0;
}

void tutti_nvml_close(struct tutti_nvml *nvml)
{
    (void)nvml;
}

bool tutti_nvml_answer(const struct tutti_nvml *nvml, const char *name, char buf[TUTTI_FACT_BYTES])
{
    (void)nvml;
    (void)name;
    (void)buf;
    return false;
}
