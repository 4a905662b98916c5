#include "strategies/unified/orders.hpp"

#include <algorithm>

namespace trimtab::tuner::unified {
namespace {

using Order = std::vector<std::int32_t>;

void add(Order order, std::vector<Order>& orders) {
  if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(std::move(order));
}

// `count` stages in a row move together.
void move_stages(const Order& devices, std::ptrdiff_t count, std::vector<Order>& orders) {
  const auto stages = static_cast<std::ptrdiff_t>(devices.size());
  for (std::ptrdiff_t from = 0; from + count <= stages; ++from) {
    for (std::ptrdiff_t to = 0; to + count <= stages; ++to) {
      Order moved = devices;
      moved.erase(moved.begin() + from, moved.begin() + from + count);
      moved.insert(moved.begin() + to, devices.begin() + from, devices.begin() + from + count);
      if (moved != devices) add(std::move(moved), orders);
    }
  }
}

void halve_stages(const PartitionSpace& space, const Order& devices, std::vector<Order>& orders) {
  if (static_cast<std::int32_t>(devices.size()) >= space.stages_max) return;
  for (std::size_t s = 0; s < devices.size(); ++s) {
    if (devices[s] % 2 != 0) continue;
    Order halved = devices;
    halved[s] /= 2;
    halved.insert(halved.begin() + static_cast<std::ptrdiff_t>(s), halved[s]);
    add(std::move(halved), orders);
  }
}

void merge_stages(const PartitionSpace& space, const Order& devices, std::vector<Order>& orders) {
  if (static_cast<std::int32_t>(devices.size()) <= space.stages_min) return;
  for (std::size_t s = 0; s + 1 < devices.size(); ++s) {
    if (devices[s] != devices[s + 1]) continue;
    Order merged = devices;
    merged[s] *= 2;
    merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(s) + 1);
    add(std::move(merged), orders);
  }
}

}  // namespace

std::vector<Order> orders_near(const PartitionSpace& space, const Order& devices) {
  std::vector<Order> orders;
  move_stages(devices, 1, orders);
  move_stages(devices, 2, orders);
  halve_stages(space, devices, orders);
  merge_stages(space, devices, orders);
  return orders;
}

}  // namespace trimtab::tuner::unified
