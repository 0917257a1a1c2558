package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Types of values in a header of an RPM package.
const (
	rpmInt16   = 3
	rpmInt32   = 4
	rpmString  = 6
	rpmBin     = 7
	rpmStrings = 8
	rpmI18N    = 9
)

// rpmHeader is tags and their values: a string, or a list of strings or numbers.
type rpmHeader map[int32]any

type rpmIndex struct{ Tag, Type, Offset, Count int32 }

// bytes are the values by tag, in big endian and aligned, with the region tag that
// makes the header one immutable whole.
func (h rpmHeader) bytes(region int32) []byte {
	var index []rpmIndex
	var store bytes.Buffer
	for _, tag := range slices.Sorted(maps.Keys(h)) {
		x, align := rpmIndex{Tag: tag, Count: 1}, 1
		value := h[tag]
		switch v := value.(type) {
		case string:
			x.Type = rpmString
			if tag == 1004 || tag == 1005 || tag == 1016 { // summary, description, group
				x.Type = rpmI18N
			}
			value = []byte(v + "\x00")
		case []string:
			x.Type, x.Count = rpmStrings, int32(len(v))
			value = []byte(strings.Join(v, "\x00") + "\x00")
		case []int16:
			x.Type, x.Count, align = rpmInt16, int32(len(v)), 2
		case []int32:
			x.Type, x.Count, align = rpmInt32, int32(len(v)), 4
		}
		for store.Len()%align != 0 {
			store.WriteByte(0)
		}
		x.Offset = int32(store.Len())
		_ = binary.Write(&store, binary.BigEndian, value) // into memory
		index = append(index, x)
	}
	n := int32(len(index) + 1)
	index = append([]rpmIndex{{region, rpmBin, int32(store.Len()), 16}}, index...)
	_ = binary.Write(&store, binary.BigEndian, rpmIndex{region, rpmBin, -16 * n, 16})
	var out bytes.Buffer
	out.Write([]byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0})
	_ = binary.Write(&out, binary.BigEndian, []int32{n, int32(store.Len())})
	_ = binary.Write(&out, binary.BigEndian, index)
	out.Write(store.Bytes())
	return out.Bytes()
}

// rpmArch are the names and numbers that RPM has for architectures.
var rpmArch = map[string]struct {
	name   string
	number byte
}{"amd64": {"x86_64", 1}, "arm64": {"aarch64", 19}}

// rpm is an RPM package, version 4: a lead, a header of digests, a header, and a
// compressed cpio archive of files by name. The digests are SHA-256.
func rpm(version, arch string, files []entry, at time.Time) ([]byte, error) {
	archive := cpio(files, at)
	payload := zipped(archive)
	v, of := packageVersion(version), rpmArch[arch]
	h := rpmHeader{
		100: []string{"C"}, 1000: "memproxy", 1001: v, 1002: "1", 1004: summary, 1005: about, 1006: []int32{int32(at.Unix())},
		1007: "localhost", 1014: "Apache-2.0", 1015: maintainer, 1016: "Unspecified", 1020: repository, 1021: "linux", 1022: of.name,
		1044: "memproxy-" + v + "-1.src.rpm", 1064: "4.18.0",
		// What it provides, in this version; and what rpm itself must know, at most.
		1047: []string{"memproxy"}, 1112: []int32{8}, 1113: []string{v + "-1"},
		1049: []string{"rpmlib(CompressedFileNames)", "rpmlib(FileDigests)", "rpmlib(PayloadFilesHavePrefix)"},
		1048: []int32{1<<24 | 10, 1<<24 | 10, 1<<24 | 10}, 1050: []string{"3.0.4-1", "4.6.0-1", "4.0-1"},
		1124: "cpio", 1125: "gzip", 1126: "9", 5011: []int32{8}, 5092: []string{digest(payload)}, 5093: []int32{8},
	}
	h.files(files, at)
	header := h.bytes(63)
	sig := rpmHeader{273: digest(header), 1000: []int32{int32(len(header) + len(payload))}, 1007: []int32{int32(len(archive))}}
	var out bytes.Buffer
	lead := [96]byte{0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, of.number, 77: 1, 79: 5}
	copy(lead[10:75], "memproxy-"+v+"-1")
	out.Write(lead[:])
	out.Write(sig.bytes(62))
	for out.Len()%8 != 0 {
		out.WriteByte(0)
	}
	out.Write(header)
	out.Write(payload)
	return out.Bytes(), nil
}

// files says of each file what the archive holds.
func (h rpmHeader) files(files []entry, at time.Time) {
	var sizes, times, flags, dirs, devices, inodes, verify []int32
	var modes, rdevs []int16
	var digests, empty, owners, bases, dirNames []string
	total := int32(0)
	for i, f := range files {
		dir := "/" + path.Dir(f.Name) + "/"
		if len(dirNames) == 0 || dirNames[len(dirNames)-1] != dir {
			dirNames = append(dirNames, dir)
		}
		flag := int32(0)
		if strings.HasPrefix(f.Name, "usr/share/doc/") || strings.HasPrefix(f.Name, "usr/share/man/") {
			flag = 2 // documentation
		}
		total += int32(len(f.Body))
		sizes, times, flags = append(sizes, int32(len(f.Body))), append(times, int32(at.Unix())), append(flags, flag)
		dirs, bases = append(dirs, int32(len(dirNames)-1)), append(bases, path.Base(f.Name))
		devices, inodes, verify = append(devices, 1), append(inodes, int32(i+1)), append(verify, -1)
		modes, rdevs = append(modes, int16(-0x8000|f.Mode)), append(rdevs, 0) // a regular file
		digests, empty, owners = append(digests, digest(f.Body)), append(empty, ""), append(owners, "root")
	}
	maps.Copy(h, rpmHeader{
		1009: []int32{total}, 1028: sizes, 1030: modes, 1033: rdevs, 1034: times, 1035: digests, 1036: empty, 1037: flags, 1039: owners,
		1040: owners, 1045: verify, 1095: devices, 1096: inodes, 1097: empty, 1116: dirs, 1117: bases, 1118: dirNames,
	})
}

// cpio is an archive of files in the portable format with wide numbers ("newc").
func cpio(files []entry, at time.Time) []byte {
	var out bytes.Buffer
	pad := func() {
		for out.Len()%4 != 0 {
			out.WriteByte(0)
		}
	}
	member := func(inode int, mode int64, name string, body []byte) {
		fmt.Fprintf(&out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
			inode, mode, 0, 0, 1, at.Unix(), len(body), 0, 1, 0, 0, len(name)+1, 0, name)
		pad()
		out.Write(body)
		pad()
	}
	for i, f := range files {
		member(i+1, 0o100000|f.Mode, "./"+f.Name, f.Body)
	}
	member(0, 0, "TRAILER!!!", nil)
	return out.Bytes()
}
