#!/usr/bin/env python3
"""Makes the compact tables of this folder from collected logs.

    traces/measured/convert.py DATA          write the tables beside this script
    traces/measured/convert.py DATA --check  say whether they are what would be written (exit 1: no)
    traces/measured/convert.py DATA --found  write found.measured alone, by found.txt: single logs
                                             of issues and guides, collected later than the others
    traces/measured/convert.py --typed [--check]  found2.measured and those after it, by found2.txt,
                                             from the figures typed into found2.figures, ...: needs
                                             no DATA

DATA is the folder of collected data: nccl-tests/ and mpi/ with a CSV and a JSON a table (the JSON:
source, platform, gpu, gpus_per_node, nodes, ranks, network, collective, dtype, quality, and where
known nccl, cuda, env, caveat), points_*.csv of single figures. map.txt, beside this script, says
which machine each was measured on; a table of which it says nothing is passed over by name. The
same data give the same bytes. The format of the tables is explained in traces/measured.h, which
reads them.
"""
import csv
import fnmatch
import glob
import json
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES_MAX = 64  # of a table; sweeps with more are thinned
# Searches whose figures are typed; each knows the platforms of those before it.
TYPED = ('found2', 'found3', 'found4', 'found5')
CALM = 1.4  # a time out of place more than so many times that in place was disturbed

COLLECTIVES = {'all_reduce': 'allreduce', 'all_gather': 'allgather', 'alltoall': 'alltoall',
               'reduce_scatter': 'reducescatter', 'broadcast': 'broadcast', 'reduce': 'reduce',
               'sendrecv': 'sendrecv'}
# A type that Tutti has no name for counts by its size.
DTYPES = {'float': 'float', 'fp32': 'float', 'torch': 'float', 'bf16': 'bfloat16', 'half': 'half',
          'double': 'double', 'bfloat16': 'bfloat16', 'uint8': 'uint8', 'fp8_e4m3': 'uint8',
          'fp8_e5m2': 'uint8', 'bf16/fp32 torch': 'bfloat16'}
KEYS = ('nodes', 'gpus', 'nics', 'nic', 'net', 'host', 'gdr', 'basis', 'env', 'ran', 'launch',
        'timing', 'iterations', 'library', 'version', 'machine', 'quality')


def fail(message):
    sys.exit('convert.py: ' + message)


# ---- map.txt -------------------------------------------------------------------------------------

class Map:
    def __init__(self, path, platforms=None):
        self.platforms = platforms or {}
        self.lines = []
        with open(path, encoding='utf-8') as file:
            for number, line in enumerate(file, 1):
                line = line.strip()
                if line and not line.startswith('#'):
                    self.read(line, '%s: line %d' % (path, number))

    def read(self, line, where):
        text, _, note = line.partition(' ; ')
        words = text.split()
        if words[0] == 'platform' and len(words) == 8:
            name, group, spec, gpus, nics, rate, net = words[1:]
            self.platforms[name] = {'name': name, 'class': group, 'spec': spec, 'gpus': int(gpus),
                                    'nics': int(nics), 'nic': rate, 'net': net}
        elif words[0] == 'log' and len(words) >= 4:
            if words[3] not in self.platforms:
                fail("%s: '%s' is no platform" % (where, words[3]))
            keys = dict(word.split('=', 1) for word in words[4:])
            for key in keys:
                if key not in KEYS:
                    fail("%s: unknown key '%s' (%s)" % (where, key, ', '.join(KEYS)))
            self.lines.append([words[1], words[2], words[3], keys, note.strip(), where, 0])
        else:
            fail("%s: '%s' is neither a platform nor a log" % (where, line))

    def find(self, name):
        """The line of a table, or None: of tables collected since, it knows nothing."""
        for line in self.lines:
            if fnmatch.fnmatchcase(name, line[0]):
                line[6] += 1
                return line
        print("passed over: no line of map.txt fits '%s'" % name)
        return None


def machine_spec(platform, table, keys):
    """The machine as a SPEC: what is as usual is left out."""
    usual, _, general = platform['spec'].partition('|')
    if usual == '-':
        return '-'
    network = table['nodes'] > 1
    special = 'host' in keys or 'gdr' in keys or network and (
        table['nics'] != share(platform, table['gpus']) or table['nic'] != platform['nic'])
    items = []
    if not usual.startswith('host:') and not special:
        name = usual
        if table['gpus'] != platform['gpus']:
            items.append('gpus=%d' % table['gpus'])
        if network and table['net'] != 'ib':
            items.append('net=%s' % table['net'])
    else:
        name, _, given = (general or usual).partition(':')
        if table['gpus'] == 1:  # one is not wired to any
            given = ','.join(w for w in given.split(',') if not w.startswith('intra='))
        rack = platform['name'].endswith('nvl72') and table['ranks'] > platform['gpus']
        items += [given, 'gpus=%d' % (platform['gpus'] if rack else table['gpus'])]
        if rack:  # hosts whose NVLinks meet
            return '%s:%s,trays=%d' % (name, ','.join(items), table['ranks'] // 4)
        board = any(word in platform['name'] for word in ('hgx', 'nvlink', 'xgmi', 'cubemesh'))
        if board and table['gpus'] != platform['gpus'] and 'nics' not in keys:
            items.append('board=%d' % platform['gpus'])
        if 'host' in keys:
            items.append(keys['host'])
        if network:
            part = 'board=%d' % platform['gpus'] in items
            items.append('nics=%d' % (platform['nics'] if part else table['nics']))
            items.append('nic=%s' % table['nic'])
            items.append('net=%s' % table['net'])
            if 'gdr' in keys:
                items.append('gdr=%s' % keys['gdr'])
    if network:
        items.append('nodes=%d' % table['nodes'])
    return name + (':' + ','.join(items) if items else '')


def share(platform, gpus):
    """The NICs that some of the GPUs of a host have."""
    return max(1, platform['nics'] * gpus // platform['gpus']) if gpus < platform['gpus'] else (
        platform['nics'])


# ---- what the collected files say ----------------------------------------------------------------

def split_library(text):
    """The library and its version out of the free text of the field `nccl`."""
    text = (text or '').strip()
    lower = text.lower()
    version = re.search(r'\d+\.\d+(?:\.\d+)?', text)
    version = version.group(0) if version else '-'
    if re.fullmatch(r'2\d{4}', text):  # NCCL_VERSION_CODE
        return 'nccl', '%d.%d.%d' % (int(text) // 10000, int(text) // 100 % 100, int(text) % 100)
    if 'maca' in lower:
        return 'mccl', version
    for word, name in (('msccl++', 'mscclpp'), ('nccl-custom', 'nccl-custom'),
                       ('custom_algos nccl', 'nccl'), ('custom_algos', 'nccl-custom'),
                       ('ctran', 'ncclx-ctran'), ('ncclx', 'ncclx'), ('mccl ibgda', 'mccl-ibgda'),
                       ('mccl', 'mccl'), ('uccl', 'uccl'), ('torchcomms', 'torchcomms'),
                       ('rdma', 'rdma'), ('neuron', 'neuron'), ('gloo', 'gloo'), ('mpi', 'mpi')):
        if word in lower:
            return name, version
    if 'rccl' in lower:
        return 'rccl', '-' if 'rocm' in lower else version
    return 'nccl', version


def find_version(log):
    """The version that a log tells where nothing else does, and how."""
    found = re.search(r'nccl-library=(\d+)|NCCL version (\d+(?:\.\d+)+)', log)
    if found:
        return split_library(found.group(1) or found.group(2))[1], None
    if re.search(r'busbw +error', log):  # now '#wrong'
        return '2.12.12', 'version: the latest of nccl-tests with a column error, until mid-2022'
    return '-', None


def split_env(text):
    """NCCL_* and RCCL_* variables out of free text."""
    found = re.findall(r'\b((?:NCCL|RCCL)_[A-Z0-9_]+)=+("[^"]*"|[^\s;,)]+)', text or '')
    skip = {'NCCL_NET'}  # names of plugins
    values = {}
    for name, value in found:
        if name not in skip:
            values[name] = '16777216' if value == '16M' else '2097152' if value == '2M' else value
    return values


def find_launch(log):
    """Does one process drive all GPUs of a host, by threads or not, or one each? By the pids of
    nccl-tests, of one run or several after each other."""
    pids, ranks = {}, {}
    for pid, host in re.findall(r'Rank +\d+ (?:Group +\d+ )?Pid +(\d+) on +(\S+)', log):
        pids.setdefault(host, set()).add(pid)
        ranks[host] = ranks.get(host, 0) + 1
    shared = [host for host in pids if ranks[host] > 1]
    if not shared:
        return '-'
    return 'one' if any(len(pids[host]) < ranks[host] for host in shared) else 'each'


def find_iterations(log):
    """How many iterations in a row nccl-tests timed, if not 20 as usual."""
    found = re.search(r'warmup iters: \d+ iters: (\d+)', log)
    return '-' if not found or found.group(1) == '20' else found.group(1)


def clean(text):
    text = re.sub(r'\s+', ' ', text or '').strip()
    return text.replace('\u00b1', '+-').encode('ascii', 'replace').decode() or '-'


def number(text):
    return None if text in (None, '', 'N/A', 'nan') else float(text)


def time_text(value):
    return '-' if value is None else '%.6g' % value


def median(values):
    values = sorted(v for v in values if v is not None)
    return values[(len(values) - 1) // 2] if values else None


def middle(rows):
    return tuple(median([row[i] for row in rows]) for i in range(3))


def thin(rows):
    """At most SIZES_MAX rows: medians of size and of times in bins of equal ratio."""
    sizes = {}
    for row in rows:
        sizes.setdefault(row[0], []).append(row)
    if len(sizes) <= SIZES_MAX:
        return [middle(sizes[size]) for size in sorted(sizes)], False
    rows = sorted(rows, key=lambda row: row[0])
    low, high = math.log(rows[0][0]), math.log(rows[-1][0])
    bins = {}
    for row in rows:
        place = min(SIZES_MAX - 1, int((math.log(row[0]) - low) / (high - low) * SIZES_MAX))
        bins.setdefault(place, []).append(row)
    thinned = []
    for place in sorted(bins):
        some = bins[place]
        thinned.append(middle(some if len(some) % 2 else some[:-1]))
    return thinned, True


def read_rows(path, scale):
    rows, zeros = [], 0
    with open(path, encoding='utf-8', newline='') as file:
        for line in csv.DictReader(file):
            size, out = number(line['size_bytes']), number(line['time_us'])
            if size is None or size == 0 or (out is None and not line.get('in_place_time_us')):
                zeros += size == 0
                continue
            rows.append((int(size) * scale, out, number(line.get('in_place_time_us'))))
    return rows, zeros


def calm(rows, collective):
    """Both columns are the same work: from 1 MiB on, where that takes long beside what the host does,
    a time out of place far above that in place was disturbed and is left out. Peer-to-peer
    collectives are other work in place."""
    if collective in ('alltoall', 'sendrecv'):
        return rows, 0
    wild = [row[0] >= 1 << 20 and None not in row and row[1] > CALM * row[2] for row in rows]
    return [(row[0], None, row[2]) if bad else row for row, bad in zip(rows, wild)], sum(wild)


def positive(value):
    return value if isinstance(value, int) and value > 0 else 0


def read_table(folder, facts, mapping):
    """One collected table, as a dictionary of what is printed; None where it is of no machine."""
    name = facts['id']
    if facts.get('dir') == 'mpi':
        facts.setdefault('library', 'mpi')
    line = mapping.find(name)
    if line is None:
        return None
    _, site, platform_name, keys, note, _, _ = line
    platform = mapping.platforms[platform_name]
    library, version = split_library(facts.get('nccl') or facts.get('library'))
    log_path = os.path.join(folder, name + '.log')
    log = open(log_path, encoding='utf-8', errors='replace').read() if os.path.exists(
        log_path) else ''
    told = None
    if library == 'nccl' and version == '-' and 'version' not in keys:
        version, told = find_version(log)
    dtype, _, op = (facts.get('dtype') or 'float/sum').rpartition('/')
    if not dtype or facts.get('dtype') in DTYPES:
        dtype, op = facts['dtype'] if facts.get('dtype') in DTYPES else 'float', 'sum'
    collective = COLLECTIVES.get(facts['collective'], facts['collective'])
    table = {
        'id': name, 'site': site, 'platform': platform_name, 'class': platform['class'],
        'ranks': facts['ranks'],
        'nodes': facts['ranks'] if keys.get('nodes') == 'ranks' else int(
            keys.get('nodes', facts['nodes'])),
        'nic': keys.get('nic', platform['nic']),
        'net': keys.get('net', platform['net']), 'basis': keys.get('basis', 'standard'),
        'library': keys.get('library', library), 'version': keys.get('version', version),
        'collective': collective, 'dtype': DTYPES[dtype],
        'op': op if op == 'sum' and collective in ('allreduce', 'reducescatter', 'reduce')
              else 'none' if collective not in ('allreduce', 'reducescatter', 'reduce') else 'sum',
        'ran': keys.get('ran', facts.get('ran', '-')),
        'launch': keys.get('launch', facts.get('launch', find_launch(log))),
        'timing': keys.get('timing', 'graph' if 'graph' in (facts.get('env') or '').lower().replace(
            'graph_file', '') and 'cuda graph' in (facts.get('env') or '').lower() else 'host'),
        'iterations': keys.get('iterations', facts.get('iterations', find_iterations(log))),
        'quality': keys.get('quality', facts['quality']), 'caveat': clean(facts.get('caveat')),
        'source': clean(facts['source']),
    }
    table['gpus'] = int(keys.get('gpus', table['ranks'] // max(1, table['nodes'])))
    if table['gpus'] * table['nodes'] != table['ranks']:
        fail("'%s': %d GPUs on %d hosts are not %d ranks" % (name, table['gpus'], table['nodes'],
                                                            table['ranks']))
    table['nics'] = int(keys.get('nics', share(platform, table['gpus'])))
    env = split_env(facts.get('env'))
    env.update(item.split('=', 1) for item in keys.get('env', '').split(',') if item)
    table['env'] = ' '.join('%s=%s' % item for item in sorted(env.items())) or '-'
    table['settings'] = clean(facts.get('env'))
    table['machine'] = (keys['machine'].format(**table) if 'machine' in keys
                        else machine_spec(platform, table, keys))
    scale = table['ranks'] if 'osu_allgather' in name or 'osu_alltoall' in name else 1
    if 'points' in facts:
        rows, zeros = facts['points'], 0
    else:
        rows, zeros = read_rows(os.path.join(folder, name + '.csv'), scale)
    rows, wild = calm(rows, collective)
    table['rows'], thinned = thin(rows)
    notes = [text for text in (note, told) if text]
    if thinned:
        notes.append('%d rows thinned to %d: medians of size and time in bins of equal ratio'
                     % (len(rows), len(table['rows'])))
    if zeros:
        notes.append('rows of 0 bytes left out')
    if wild:
        notes.append('%d time%s out of place above %g times that in place left out'
                     % (wild, '' if wild == 1 else 's', CALM))
    if scale > 1:
        notes.append('sizes of a rank times ranks, as nccl-tests counts')
    table['note'] = clean('; '.join(notes))
    return table


# ---- figures typed off a source: found2.figures, ... ---------------------------------------------

def agrees(facts, size, time, rate):
    """Is the rate, as printed, that of the time, as printed? Both are rounded."""
    factor = 1
    if facts.get('rate') == 'busbw':
        factor = BUS_FACTORS[COLLECTIVES[facts['collective']]](facts['ranks'])
    half = [0.51 * 10 ** -len(text.partition('.')[2]) for text in (time, rate)]
    low, high = (size * factor / (float(time) + sign * half[0]) / 1e3 for sign in (1, -1))
    return low - half[1] <= float(rate) <= high + half[1]


def read_typed(path, mapping):
    tables, facts, rows = [], None, False
    with open(path, encoding='ascii') as file:
        for count, line in enumerate(file, 1):
            words = line.split()
            where = '%s: line %d' % (path, count)
            if not words or line.startswith('#'):
                continue
            if words[0] == 'table':
                facts, rows = {'id': words[1], 'dir': '-', 'quality': 'good', 'points': []}, False
            elif words[0] == 'rows':
                rows = True
            elif words[0] == 'end':
                facts['ranks'], facts['nodes'] = int(facts['ranks']), int(facts['nodes'])
                tables.append(read_table('', facts, mapping))
                if tables[-1] is None:  # typed, but not said of which machine
                    fail('%s: table %s' % (where, facts['id']))
            elif not rows:
                facts[words[0]] = line.partition(' ')[2].strip()
            elif 'only' in facts:
                point({facts['id']: facts}, facts['id'], facts['collective'], int(facts['ranks']),
                      0, words[0], words[1], facts['only'])
            else:
                times = [None if word == '-' else number(word) for word in words[1:3]]
                facts['points'].append((int(words[0]), *(times + [None])[:2]))
                facts['ranks'] = int(facts['ranks'])
                if len(words) > 3 and not agrees(facts, int(words[0]), words[1], words[3]):
                    fail('%s: %s GB/s is not the rate of %s us' % (where, words[3], words[1]))
    return tables


# ---- single published figures: points_*.csv ------------------------------------------------------

BUS_FACTORS = {'allreduce': lambda n: 2 * (n - 1) / n, 'allgather': lambda n: (n - 1) / n,
               'alltoall': lambda n: (n - 1) / n, 'reducescatter': lambda n: (n - 1) / n}


def point(facts, name, collective, ranks, nodes, size, rate_GBps, what, **more):
    """Adds one figure to the table `name`; `what`: busbw or algbw, from which the time follows."""
    factor = BUS_FACTORS[COLLECTIVES.get(collective, collective)](ranks) if what == 'busbw' else 1
    table = facts.setdefault(name, dict(
        {'id': name, 'dir': 'nccl-tests', 'collective': collective, 'ranks': ranks, 'nodes': nodes,
         'dtype': 'float/sum', 'quality': 'good', 'points': [],
         'caveat': 'single published figures; times from ' + what}, **more))
    table['points'].append((int(size), int(size) * factor / (float(rate_GBps) * 1e3), None))


def points_ec2(facts, line):
    if not line['size_bytes'] or 'matched' in line['note']:
        return
    word = line['note'].split(';')[0].split(' ')[0]
    word = {'baseline': '_base', 'env': '_noenv'}.get(word, '')
    kind = {'p6-b300': 'b300_p6', 'p6-b200': 'b200_p6',
            'p5': 'h100_p5'}[line['platform'].split(' ')[0]]
    name = 'points_%s_%snode_%s%s' % (kind, line['nodes'], line['collective'], word)
    version = re.search(r'NCCL (\d+\.\d+\.\d+)', line['note'])
    point(facts, name, line['collective'], int(line['gpus']), int(line['nodes']),
          line['size_bytes'], line['busbw_GBps'], 'busbw', source=line['source'], env=line['note'],
          nccl=version.group(1) if version else None)


def points_mscclpp(facts, line):
    kind = 'h100' if 'H100' in line['platform'] else 'a100'
    name = 'points_%s_mscclpp_%s_kernel%s_n%s' % (kind, line['collective'], line['kernel'],
                                                 line['ranks'])
    ranks = int(line['ranks'])
    point(facts, name, line['collective'], ranks, ranks // int(line['ranks_per_node']),
          line['size_bytes'], line['algbw_GBps'], 'algbw', source=line['source'], nccl='MSCCL++')
    size, _, _ = facts[name]['points'][-1]
    facts[name]['points'][-1] = (size, float(line['time_us']), None)
    facts[name]['caveat'] = 'single published figures'


def points_partitions(facts, line):
    name = 'points_gb200_%s_%s' % (line['partition'].lower(), line['algo'].split(' ')[0])
    point(facts, name, 'all_reduce', int(line['gpus']), int(line['partitions']), line['size_bytes'],
          line['busbw_GBps'], 'busbw', source=line['source'], nccl=line['nccl'],
          env='NCCL_NVLS_ENABLE=0 ' + ('NCCL_ALGO=Tree' if 'tree' in line['algo'] else ''))


def points_nvls(facts, line):
    words = line['platform'].split(' ')
    kind = 'p5en' if 'p5en' in line['platform'] else words[1].lower()
    if ' all_' in line['platform'] or ' reduce_' in line['platform']:
        collective = words[2]
        off = ' off' in line['platform']
        names = [('h200_%s%s' % (collective, '_nonvls' if off else ''),
                  line['busbw_default_GBps'], 'NCCL_NVLS_ENABLE=0' if off else '')]
    else:
        collective = 'all_reduce'
        forced = line['platform'].rpartition('forced ')[2] if 'forced' in line['platform'] else ''
        algorithm = {'ring': 'NCCL_ALGO=Ring', 'NVLSTree': 'NCCL_ALGO=NVLSTree', '': ''}[forced]
        names = [('%s_n%s%s' % (kind, line['gpus'], '_' + forced.lower() if forced else ''),
                  line['busbw_default_GBps'], algorithm)]
        if line['busbw_nvls_off_GBps']:
            names.append(('%s_n%s_nonvls' % (kind, line['gpus']), line['busbw_nvls_off_GBps'],
                          'NCCL_NVLS_ENABLE=0'))
    size = int(line['payload'][:-3]) << 30
    for name, rate, env in names:
        ranks = int(line['gpus'])
        point(facts, 'points_stas_' + name, collective, ranks, max(1, ranks // 8), size, rate,
              'busbw', source=line['source'], nccl='2.27.7', env=env,
              ran='ring' if env == 'NCCL_NVLS_ENABLE=0' else line['algo_default'].lower())


def points_nvl64(facts, line):
    kind = 'gb300' if 'GB300' in line['platform'] else 'gb200'
    variant = line['variant'].replace('AllGatherP CE', '').strip() or 'batched'
    point(facts, 'points_%s_nvl64_allgather_%s' % (kind, variant), 'all_gather', 64, 16,
          line['size_bytes'], line['algbw_GBps'], 'algbw', source=line['source'],
          nccl='NCCLX copy engines', env=line['variant'])


def points_blocks(facts, line):
    for blocks in (1, 2, 4, 8, 16):
        if line['nb%d' % blocks]:
            point(facts, 'points_h100_ctring_%dblocks' % blocks, 'all_reduce', 8, 8, line['size'],
                  line['nb%d' % blocks], 'busbw', source='github:meta-pytorch/' + line['source'],
                  nccl='NCCLX ctran ctring', env='%d blocks' % blocks)


def points_rtxpro6000(facts, line):
    if line['peak_busbw_512MiB_GBps']:
        count, kind = re.match(r'(\d) GPU (\S*)', line['topology']).groups()
        more = '_8channels' if 'MIN_N' in line['env'] else ''
        name = 'points_rtxpro6000_%sgpu_%s_%s%s' % (count, line['collective'],
                                                  kind.strip('()').lower(), more)
        point(facts, name.replace('0-5', 'all'), line['collective'], int(count), 1, 512 << 20,
              line['peak_busbw_512MiB_GBps'], 'busbw', env=line['env'], nccl='2.28.9',
              source='public GitHub file stored id 70714532949')


POINTS = {'points_b300_p6_efa.csv': points_ec2, 'points_mscclpp_ndmv4_ndmv5.csv': points_mscclpp,
          'points_gb200_nvl_partitions.csv': points_partitions,
          'points_nvls_vs_ring_by_gpu_count.csv': points_nvls,
          'points_meta_nvl64_allgather.csv': points_nvl64,
          'points_meta_ctring_blocks_h100_ibonly.csv': points_blocks,
          'points_rtxpro6000_6gpu.csv': points_rtxpro6000}


def read_points(data, mapping):
    facts = {}
    for path in sorted(glob.glob(os.path.join(data, 'nccl-tests', 'points_*.csv'))):
        read = POINTS.get(os.path.basename(path))
        if read is None:
            print("left out: '%s' has no sizes" % os.path.basename(path))
            continue
        with open(path, encoding='utf-8', newline='') as file:
            for line in csv.DictReader(file):
                read(facts, line)
    return [read_table('', facts[name], mapping) for name in sorted(facts)]


# ---- writing -------------------------------------------------------------------------------------

FIELDS = ('site', 'platform', 'class', 'machine', 'ranks', 'nodes', 'gpus', 'nics', 'nic', 'net',
          'basis', 'library', 'version', 'env', 'settings', 'collective', 'dtype', 'op', 'ran',
          'launch', 'timing', 'iterations', 'quality', 'caveat', 'note', 'source')
UNSAID = {'-'}


def print_table(table):
    rack = table['machine'].count('trays=') == 1 and table['machine'].count('nodes=') == 0
    if table['nodes'] == 1 or rack:  # no network is used
        known = table['basis'] == 'assumed'  # which may be of a setting
        table = dict(table, nics='-', nic='-', net='-', basis='assumed' if known else '-')
    lines = ['table ' + table['id']]
    for field in FIELDS:
        value = str(table[field])
        if value not in UNSAID or field == 'machine':
            lines.append('%s %s' % (field, value))
    lines.append('rows')
    for size, out, inside in table['rows']:
        lines.append('%d %s%s' % (size, time_text(out),
                                  '' if inside is None else ' ' + time_text(inside)))
    return '\n'.join(lines) + '\nend\n'


def read_all(data, mapping):
    tables = []
    for folder in ('nccl-tests', 'mpi'):
        for path in sorted(glob.glob(os.path.join(data, folder, '*.json'))):
            with open(path, encoding='utf-8') as file:
                facts = json.load(file)
            name = facts.setdefault('id', os.path.basename(path)[:-len('.json')])
            if facts.get('collective') not in COLLECTIVES:
                print("left out: '%s' measured '%s'" % (name, facts.get('collective')))
                continue
            tables.append(read_table(os.path.join(data, folder), facts, mapping))
    return [table for table in tables + read_points(data, mapping) if table is not None]


def write_all(files, what, check):
    """Writes the tables of each file; returns the paths of those that were otherwise."""
    differ = []
    for name in sorted(files):
        text = ('tutti measured 1\n'
                '# Written by convert.py from %s; the sources stand at each table.\n' % what)
        for table in sorted(files[name], key=lambda t: t['id']):
            text += '\n' + print_table(table)
        path = os.path.join(HERE, name + '.measured')
        old = open(path, encoding='ascii').read() if os.path.exists(path) else ''
        if old != text:
            differ.append(path)
            if not check:
                with open(path, 'w', encoding='ascii', newline='\n') as file:
                    file.write(text)
    return differ


def finished(mapping):
    for line in mapping.lines:
        if line[6] == 0:
            fail("%s: nothing fits '%s'" % (line[5], line[0]))


def main(arguments):
    check, typed = '--check' in arguments, '--typed' in arguments
    one = 'found' if '--found' in arguments else None
    data = [word for word in arguments if word not in ('--check', '--found', '--typed')]
    if len(data) != (not typed):
        fail('usage: convert.py DATA [--check] [--found], convert.py --typed [--check]')
    mapping = Map(os.path.join(HERE, 'map.txt'))
    if one or typed:
        mapping = Map(os.path.join(HERE, 'found.txt'), mapping.platforms)
    written, differ = {}, []
    if typed:
        for name in TYPED:
            mapping = Map(os.path.join(HERE, name + '.txt'), mapping.platforms)
            figures = name + '.figures'
            files = {name: read_typed(os.path.join(HERE, figures), mapping)}
            finished(mapping)
            written.update(files)
            differ += write_all(files, figures, check)
    else:
        for table in read_all(data[0], mapping):
            written.setdefault(one or table['platform'], []).append(table)
        finished(mapping)
        differ = write_all(written, 'collected logs', check)
    print('%d tables in %d files, %d %s' % (sum(map(len, written.values())), len(written),
                                            len(differ), 'differ' if check else 'written'))
    return 1 if check and differ else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
