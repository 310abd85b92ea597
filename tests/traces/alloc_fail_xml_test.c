/* Every allocation of the reader of NCCL topology XML made to fail once. (libexpat's own do not
 * pass here; it says XML_ERROR_NO_MEMORY itself.) */
#include "runtime/arena.h"
#include "tests/alloc_fail.h"
#include "topo/hardware.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

/* Two NUMA nodes, two GPUs on an NVSwitch, a NIC, and links that are left out; all of it becomes
 * hardware too, which is written and read as text. */
static const char machine[] =
    "<system version='1'><cpu numaid='0' arch='x86_64' vendor='GenuineIntel'>"
    "<pci busid='0000:16:00.0'><pci busid='0000:18:00.0'><gpu dev='0' sm='90' rank='0'>"
    "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/>"
    "<nvlink target='0000:99:00.0' count='1' tclass='0x030200'/></gpu></pci>"
    "<pci busid='0000:19:00.0'><nic><net dev='0' speed='400000' port='1' guid='0xa0'/></nic></pci>"
    "</pci></cpu><cpu numaid='1' arch='x86_64' vendor='GenuineIntel'>"
    "<pci busid='0000:20:00.0'><gpu dev='1' sm='90' rank='1'>"
    "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/></gpu></pci></cpu></system>";

static int keep_one(const struct tutti_hardware *hardware, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    const struct tutti_hardware *kept = NULL;
    int status = arena == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_hardware_keep(arena, hardware, 1, &kept, err);
    tutti_arena_free(arena);
    return status;
}

static int read_machine(struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    int status = tutti_nccl_xml_parse("a.xml", machine, sizeof(machine) - 1, &topo, err);

    struct tutti_topo *again = NULL;
    char *text = NULL;

    if (status == 0)
        status = tutti_topo_print(topo, &text, err);
    if (status == 0)
        status = tutti_topo_parse("again", text, strlen(text), &again, err);
    if (status == 0)
        status = keep_one(again->hardware, err);
    free(text);
    tutti_topo_free(again);
    tutti_topo_free(topo);
    return status;
}

TEST(reading_nccl_xml_fails_cleanly)
{
    struct tutti_err err = {""};

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    ALLOC_FAIL_EACH(read_machine(&err), err);
}
