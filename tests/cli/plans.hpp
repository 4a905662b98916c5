#pragma once

#include "schema/plan.hpp"

// Two stages of three operators on one device each; the second recomputes its first two.
inline trimtab::Plan two_stages() {
  trimtab::Segment first;
  first.operators = {0, 3};
  trimtab::Segment second;
  second.operators = {3, 6};
  second.recompute = {{3, 5}};
  trimtab::Plan plan;
  plan.model = "toy-6";
  plan.global_batch = 8;
  plan.microbatch = 2;
  plan.stages = {{{0}, {first}}, {{1}, {second}}};
  return plan;
}

// One stage on both devices.
inline trimtab::Plan data_parallel() {
  trimtab::Segment all;
  all.operators = {0, 6};
  all.dp = 2;
  all.sharded = trimtab::ShardedLevel::kOptimizer;
  trimtab::Plan plan = two_stages();
  plan.microbatch = 4;
  plan.stages = {{{0, 1}, {all}}};
  return plan;
}
