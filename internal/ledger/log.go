package ledger

// log is the number by which a partition's log is told from others that had the same positions.
// Whoever remembers positions takes two records for one only where the number is the same, too. So
// all owners of one log have the same, which commits carry. An owner draws another where no commit
// of ours is for the offset and the topic at which it begins: the log may be another one, or an
// operator wants its records again. Drawn once too often, a repeat is called a second time; once
// too rarely, a message is taken for a repeat and is lost.
type log struct {
	draw func() uint32 // nil: logs have no numbers
	// Number is that of the records which are added next; 0: there are none.
	Number uint32
}

func newLog(draw func() uint32) log {
	l := log{draw: draw}
	l.renew()
	return l
}

// renew gives the log a number that no other has.
func (l *log) renew() {
	if l.draw != nil {
		l.Number = l.draw()
	}
}

// restore is told the number that the commit carries, 0 where there is none of ours.
func (l *log) restore(number uint32) {
	if l.draw == nil {
		return
	}
	if number == 0 {
		l.renew()
		return
	}
	l.Number = number
}
