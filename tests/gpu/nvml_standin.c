/* Answers in place of NVML: what a file of facts (topo/local.h), named by TUTTI_STANDIN_FACTS, says
 * that it answered on some machine. TUTTI_STANDIN_NVML_FAIL names a call that fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/local/nvml_calls.h"

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, UNKNOWN = 999, GPUS = 64 };

static char devices[GPUS]; /* a handle is the address of one */

/* The text of "nvml/..." in the file, into `buf`. */
static int fact(const char *name, char *buf, size_t buf_bytes)
{
    const char *path = getenv("TUTTI_STANDIN_FACTS");
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    char line[8192];
    size_t length = strlen(name);
    int found = 0;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "nvml/", 5) != 0 || strncmp(line + 5, name, length) != 0 ||
            strncmp(line + 5 + length, " = ", 3) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(buf, buf_bytes, "%s", line + 5 + length + 3);
        found = 1;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static int fact_of(const void *device, const char *what, char *buf, size_t buf_bytes)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%d/%s", (int)((const char *)device - devices), what);
    return fact(name, buf, buf_bytes);
}

static int fails(const char *call)
{
    const char *wish = getenv("TUTTI_STANDIN_NVML_FAIL");

    return wish != NULL && strcmp(wish, call) == 0;
}

#define DECLARE(FIELD, SYMBOL, PARAMETERS, NEEDED) int standin_##FIELD PARAMETERS __asm__(SYMBOL);
TUTTI_NVML_CALLS(DECLARE)

#define CALL(FIELD, PARAMETERS) \
    __attribute__((visibility("default"))) int standin_##FIELD PARAMETERS

CALL(init, (void))
{
    return fails("init") ? UNKNOWN : TUTTI_NVML_SUCCESS;
}

CALL(shutdown, (void))
{
    return TUTTI_NVML_SUCCESS;
}

CALL(driver, (char *text, unsigned bytes))
{
    return !fails("driver") && fact("driver", text, bytes) ? TUTTI_NVML_SUCCESS : UNKNOWN;
}

CALL(count, (unsigned *ret))
{
    char text[32] = "0";

    if (fails("count"))
        return UNKNOWN;
    (void)fact("count", text, sizeof(text));
    *ret = (unsigned)strtoul(text, NULL, 10);
    return TUTTI_NVML_SUCCESS;
}

CALL(handle, (unsigned index, void **ret))
{
    if (fails("handle") || index >= GPUS)
        return NOT_FOUND;
    *ret = &devices[index];
    return TUTTI_NVML_SUCCESS;
}

CALL(name, (void *device, char *text, unsigned bytes))
{
    return !fails("name") && fact_of(device, "name", text, bytes) ? TUTTI_NVML_SUCCESS : UNKNOWN;
}

/* "0000:18:00.0" as NVML has it: "00000000:18:00.0", in capitals. */
static void set_bus(const char *bus, struct tutti_nvml_pci *ret)
{
    *ret = (struct tutti_nvml_pci){.bus_legacy = ""};
    (void)snprintf(ret->bus_id, sizeof(ret->bus_id), "0000%.20s", bus);
    for (char *c = ret->bus_id; *c != '\0'; c++)
        *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 'a' + 'A' : *c);
}

CALL(pci, (void *device, struct tutti_nvml_pci *ret))
{
    char bus[64];

    if (fails("pci") || !fact_of(device, "bus", bus, sizeof(bus)))
        return UNKNOWN;
    set_bus(bus, ret);
    return TUTTI_NVML_SUCCESS;
}

CALL(capability, (void *device, int *major, int *minor))
{
    char text[32];
    int sm;

    if (fails("capability") || !fact_of(device, "sm", text, sizeof(text)))
        return UNKNOWN;
    sm = (int)strtol(text, NULL, 10);
    *major = sm / 10;
    *minor = sm % 10;
    return TUTTI_NVML_SUCCESS;
}

CALL(memory, (void *device, struct tutti_nvml_memory *ret))
{
    char text[32];

    if (fails("memory") || !fact_of(device, "memory", text, sizeof(text)))
        return UNKNOWN;
    *ret = (struct tutti_nvml_memory){.total = strtoull(text, NULL, 10)};
    return TUTTI_NVML_SUCCESS;
}

static int pcie(void *device, int second, unsigned *ret)
{
    char text[32];
    char *end;
    unsigned long first;

    if (!fact_of(device, "pcie", text, sizeof(text)))
        return NOT_SUPPORTED;
    first = strtoul(text, &end, 10);
    *ret = (unsigned)(second ? strtoul(end, NULL, 10) : first);
    return TUTTI_NVML_SUCCESS;
}

CALL(pcie_generation, (void *device, unsigned *ret))
{
    return fails("pcie") ? UNKNOWN : pcie(device, 0, ret);
}

CALL(pcie_width, (void *device, unsigned *ret))
{
    return pcie(device, 1, ret);
}

static int link_of(void *device, unsigned link, char *kind, size_t kind_bytes, char *bus,
                   size_t bus_bytes)
{
    char what[32];
    char text[64];
    size_t length;

    (void)snprintf(what, sizeof(what), "link/%u", link);
    if (!fact_of(device, what, text, sizeof(text)))
        return 0;
    length = strcspn(text, " ");
    (void)snprintf(kind, kind_bytes, "%.*s", (int)length, text);
    (void)snprintf(bus, bus_bytes, "%s", text[length] == ' ' ? text + length + 1 : "");
    return 1;
}

CALL(link_state, (void *device, unsigned link, int *ret))
{
    char kind[32];
    char bus[64];

    if (fails("link_state") || link >= TUTTI_NVML_LINKS_MAX)
        return NOT_SUPPORTED;
    *ret = link_of(device, link, kind, sizeof(kind), bus, sizeof(bus));
    return TUTTI_NVML_SUCCESS;
}

CALL(link_pci, (void *device, unsigned link, struct tutti_nvml_pci *ret))
{
    char kind[32];
    char bus[64];

    if (!link_of(device, link, kind, sizeof(kind), bus, sizeof(bus)))
        return NOT_FOUND;
    set_bus(bus, ret);
    return TUTTI_NVML_SUCCESS;
}

CALL(link_type, (void *device, unsigned link, int *ret))
{
    char kind[32];
    char bus[64];

    if (!link_of(device, link, kind, sizeof(kind), bus, sizeof(bus)) ||
        strcmp(kind, "unknown") == 0)
        return NOT_SUPPORTED;
    *ret = strcmp(kind, "gpu") == 0      ? TUTTI_NVML_REMOTE_GPU
           : strcmp(kind, "switch") == 0 ? TUTTI_NVML_REMOTE_SWITCH
                                         : TUTTI_NVML_REMOTE_NPU;
    return TUTTI_NVML_SUCCESS;
}

CALL(peer, (void *device, void *other, int capability, int *ret))
{
    char what[32];
    char text[32];

    (void)capability;
    (void)snprintf(what, sizeof(what), "peer/%d", (int)((char *)other - devices));
    if (fails("peer") || !fact_of(device, what, text, sizeof(text)))
        return NOT_SUPPORTED;
    *ret = text[0] == '1' ? 0 : 1; /* NVML_P2P_STATUS_OK, or a reason */
    return TUTTI_NVML_SUCCESS;
}

CALL(fields, (void *device, int count, struct tutti_nvml_field *values))
{
    char text[32] = "";
    int found = !fails("fields") && fact_of(device, "c2c", text, sizeof(text));
    char *end;
    uint64_t links = strtoull(text, &end, 10);
    uint64_t rate = strtoull(end, NULL, 10);

    for (int i = 0; i < count; i++) {
        values[i].result = found ? TUTTI_NVML_SUCCESS : NOT_SUPPORTED;
        values[i].value = values[i].id == TUTTI_NVML_C2C_COUNT ? links : rate;
    }
    return TUTTI_NVML_SUCCESS;
}

CALL(mig, (void *device, unsigned *now, unsigned *next))
{
    char text[32];

    if (!fact_of(device, "mig", text, sizeof(text)))
        return NOT_SUPPORTED;
    *now = *next = (unsigned)strtoul(text, NULL, 10);
    return TUTTI_NVML_SUCCESS;
}
