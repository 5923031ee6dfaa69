// Large pages for memory that is read at random. Each access to a table of gigabytes on 4 KiB pages
// also walks the page table; on a virtual machine that doubles its cost.
#pragma once

#include <cstdint>

namespace salient {

// Asks the system to back [begin, begin + bytes) with huge pages, moving what is there. Contents do
// not change. Where the system cannot (other systems, fragmented memory) nothing happens. Does
// nothing for small ranges, which the processor's translation cache covers, nor for memory mapped
// from files: there the advice would make each page fault read 2 MiB.
void request_huge_pages(const void* begin, std::int64_t bytes);

}  // namespace salient
