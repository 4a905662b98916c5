"""Arithmetic on ascending, disjoint half-open intervals [(begin, end)] of an operator's elements. Pure."""


def size(intervals):
    return sum(end - begin for begin, end in intervals)


def joined(intervals):
    """The same elements, with neighbours that touch made one."""
    result = []
    for begin, end in intervals:
        if begin == end:
            continue
        if result and result[-1][1] == begin:
            result[-1] = (result[-1][0], end)
        else:
            result.append((begin, end))
    return tuple(result)


def cut(intervals, begin, end):
    """The elements at positions [begin, end) of what the intervals list one after the other."""
    result, position = [], 0
    for low, high in intervals:
        first, last = max(begin - position, 0), min(end - position, high - low)
        if first < last:
            result.append((low + first, low + last))
        position += high - low
    return tuple(result)


def common(left, right):
    """[(position in left, position in right, length)] of the elements that both contain, in order."""
    result = []
    i = j = at_left = at_right = 0
    while i < len(left) and j < len(right):
        begin, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if begin < end:
            result.append((at_left + begin - left[i][0], at_right + begin - right[j][0], end - begin))
        if left[i][1] <= right[j][1]:
            at_left += left[i][1] - left[i][0]
            i += 1
        else:
            at_right += right[j][1] - right[j][0]
            j += 1
    return result


def intersection(left, right):
    return joined(piece for position, _, length in common(left, right)
                  for piece in cut(left, position, position + length))


def without(left, right):
    """The elements of `left` that `right` lacks."""
    result = []
    for begin, end in left:
        for low, high in right:
            if high <= begin or low >= end:
                continue
            if begin < low:
                result.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            result.append((begin, end))
    return joined(result)
